/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The command SET_OPTION of an rdma_cm file (rdma_set_option(3)). Any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/id.h"
#include "cm/kernel.h"
#include "cm/ucma_command.h"
#include "hca/adapter.h"
#include "host/user_memory.h"

#define MAX_OPTION (4u << 20) /* what the kernel can allocate in one piece */

static bool to_bool(const void *value)
{
	int number;

	memcpy(&number, value, sizeof(number));
	return number;
}

static int set_timeout(struct urxe_id *id, uint8_t timeout)
{
	if (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND)
		return -EINVAL;
	id->options.timeout = timeout;
	id->options.timeout_set = true;
	return 0;
}

static int set_id_option(struct urxe_id *id, uint32_t name, const void *value, size_t len)
{
	bool byte = name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT;

	if (name > RDMA_OPTION_ID_ACK_TIMEOUT)
		return -ENOSYS;
	if (len != (byte ? sizeof(uint8_t) : sizeof(int)))
		return -EINVAL;
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		id->options.tos = *(const uint8_t *)value;
		id->options.tos_set = true;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR: return urxe_id_set_reuseaddr(id, to_bool(value));
	case RDMA_OPTION_ID_AFONLY: return urxe_id_set_afonly(id, to_bool(value));
	default: return set_timeout(id, *(const uint8_t *)value);
	}
}

/* Of several records, the first for both directions counts. */
static int set_path(struct urxe_id *id, const struct ibv_path_data *data, size_t len)
{
	if (len % sizeof(*data))
		return -EINVAL;
	for (; len; len -= sizeof(*data), data++)
		if (data->flags ==
		    (IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL))
			return id->port ? urxe_id_set_path(id, &data->path) : -EINVAL;
	return -EINVAL;
}

static int set_option(struct urxe_id *id, const struct rdma_ucm_set_option *cmd, const void *value)
{
	switch (cmd->level) {
	case RDMA_OPTION_ID: return set_id_option(id, cmd->optname, value, cmd->optlen);
	case RDMA_OPTION_IB:
		if (cmd->optname != RDMA_OPTION_IB_PATH)
			return -ENOSYS;
		return set_path(id, value, cmd->optlen);
	default: return -ENOSYS;
	}
}

int urxe_command_set_option(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_set_option *cmd = body;
	struct urxe_id *id;
	void *value;
	int ret;

	if (cmd->optlen > MAX_OPTION)
		return -EINVAL;
	value = malloc(cmd->optlen + 1);
	if (!value)
		return -ENOMEM;
	urxe_engine_lock();
	ret = urxe_id_find(c->file, cmd->id, &id)
		      ?: urxe_user_read(value, cmd->optval, cmd->optlen)
		      ?: set_option(id, cmd, value);
	urxe_engine_unlock();
	free(value);
	return ret ? ret : urxe_kernel_also(c, cmd->id);
}
