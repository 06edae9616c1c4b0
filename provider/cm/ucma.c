/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The commands of an rdma_cm file (<rdma/rdma_user_cm.h>, ABI 4), with the checks of the kernel's
 * in their order, so that the same errno comes out. A command is read from the program's memory, an
 * id is looked up and worked on under the engine lock, and the answer is written to where the
 * command says. Any thread.
 */
#include <errno.h>
#include <string.h>

#include "cm/id.h"
#include "cm/kernel.h"
#include "cm/ucma_command.h"
#include "hca/adapter.h"
#include "host/fd_files.h"
#include "host/libc.h"
#include "host/user_memory.h"

#include <fcntl.h>

#define MAX_BACKLOG 1024 /* net.rdma_ucm.max_backlog */

#define END_OF(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))

int urxe_command_take(const struct urxe_command *cmd, void *to, size_t size)
{
	size_t part = size < cmd->have ? size : cmd->have;

	memcpy(to, cmd->bytes, part);
	return urxe_user_read((uint8_t *)to + part, cmd->from + part, size - part);
}

int urxe_id_find_bound(struct urxe_ucma *file, uint32_t handle, struct urxe_id **id)
{
	int ret = urxe_id_find(file, handle, id);

	if (!ret && !(*id)->port)
		ret = -EINVAL;
	return ret;
}

static int create_id(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id *cmd = body;
	struct urxe_id *id;
	int ret;

	urxe_ucma_hold_manager(c->file);
	urxe_engine_lock();
	ret = urxe_id_create(c->file, cmd->ps, cmd->qp_type, cmd->uid, &id);
	if (!ret) {
		resp.id = id->handle;
		ret = urxe_user_write(cmd->response, &resp, sizeof(resp));
		if (ret)
			urxe_id_destroy(id);
	}
	urxe_engine_unlock();
	return ret;
}

static int destroy_id(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id *cmd = body;
	struct urxe_twin twin = {0};
	struct urxe_id *id;
	int ret;

	urxe_engine_lock();
	ret = urxe_id_find(c->file, cmd->id, &id);
	if (ret == -ENXIO)
		ret = 0;
	if (!ret) {
		twin = id->twin;
		resp.events_reported = urxe_id_destroy(id);
	}
	urxe_engine_unlock();
	if (twin.kind)
		resp.events_reported += urxe_kernel_destroy(c->file, twin.kernel);
	return ret ? ret : urxe_user_write(cmd->response, &resp, sizeof(resp));
}

static int resolve_route(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	struct rdma_ucm_resolve_route *cmd = body;

	return urxe_id_resolve_route(id, cmd->timeout_ms);
}

static bool check_connect(void *body)
{
	return ((struct rdma_ucm_connect *)body)->conn_param.valid;
}

static int connect_id(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	struct rdma_ucm_connect *cmd = body;

	return urxe_id_connect(id, &cmd->conn_param, &cmd->ece);
}

static int listen_id(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_listen *cmd = body;
	struct urxe_id *id;
	int ret;

	if (!cmd->backlog || cmd->backlog > MAX_BACKLOG)
		cmd->backlog = MAX_BACKLOG;
	if (!c->file->manager) {
		ret = urxe_kernel_take(c, cmd->id);
		if (ret != URXE_OURS)
			return ret;
	}
	ret = urxe_command_bind_any(c, cmd->id) ?: urxe_kernel_also(c, cmd->id);
	if (ret)
		return ret;
	urxe_engine_lock();
	ret = urxe_id_find(c->file, cmd->id, &id) ?: urxe_id_listen(id, cmd->backlog);
	urxe_engine_unlock();
	if (ret)
		urxe_kernel_unlisten(c->file, cmd->id);
	return ret;
}

static int accept_id(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	struct rdma_ucm_accept *cmd = body;
	int ret = urxe_id_accept(id, cmd->conn_param.valid ? &cmd->conn_param : NULL, &cmd->ece);

	if (!ret && cmd->conn_param.valid)
		id->uid = cmd->uid;
	return ret;
}

static bool check_reject(void *body)
{
	struct rdma_ucm_reject *cmd = body;

	if (!cmd->reason)
		cmd->reason = URXE_CM_REJ_CONSUMER_DEFINED;
	return cmd->reason == URXE_CM_REJ_CONSUMER_DEFINED ||
	       cmd->reason == URXE_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED;
}

static int reject_id(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	struct rdma_ucm_reject *cmd = body;

	return urxe_id_reject(id, cmd->private_data, cmd->private_data_len, cmd->reason);
}

static int disconnect_id(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	return urxe_id_disconnect(id);
}

static int notify(struct urxe_id *id, const struct urxe_command *c, void *body)
{
	struct rdma_ucm_notify *cmd = body;

	return urxe_id_notify(id, cmd->event);
}

static int get_event(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_get_event *cmd = body;

	return urxe_ucma_get_event(c->file, c->fd, cmd->response, c->out);
}

/* The kernel's part first: where that cannot be done nothing is. */
static int migrate_between(struct urxe_ucma *from, struct urxe_ucma *to, uint32_t handle,
			   uint32_t *reported)
{
	struct urxe_twin twin = {0};
	struct urxe_id *id;
	int ret;

	*reported = 0;
	if (urxe_ucma_is_stale(from))
		return -ENODEV;
	urxe_engine_lock();
	ret = urxe_id_find(from, handle, &id);
	if (!ret)
		twin = id->twin;
	urxe_engine_unlock();
	if (!ret && twin.kind)
		ret = urxe_kernel_migrate(from, to, twin.kernel, reported);
	if (ret)
		return ret;
	urxe_engine_lock();
	ret = urxe_id_find(from, handle, &id);
	if (!ret) {
		urxe_id_migrate(id, to);
		*reported += id->events_reported;
	}
	urxe_engine_unlock();
	return ret;
}

/* The command goes to the new file and names a descriptor of the old one. */
static int migrate_id(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id *cmd = body;
	struct urxe_ucma *old;
	int ret;

	old = urxe_fd_files_get(&urxe_ucma_fds, cmd->fd);
	if (!old)
		return urxe_libc.fcntl(cmd->fd, F_GETFD) < 0 ? -ENOENT : -EINVAL;
	urxe_ucma_hold_manager(c->file);
	ret = migrate_between(old, c->file, cmd->id, &resp.events_reported);
	urxe_ucma_close(old);
	return ret ? ret : urxe_user_write(cmd->response, &resp, sizeof(resp));
}

#define COMMAND(type, ...)                               \
	{                                                \
		.size = sizeof(struct type), __VA_ARGS__ \
	}
#define ABOUT_ID(type, ...) \
	COMMAND(type, .about_id = true, .id_at = offsetof(struct type, id), __VA_ARGS__)
#define ON_ID(function, type, ...)     ABOUT_ID(type, .on_id = function, __VA_ARGS__)
#define ON_DEVICE(function, type, ...) ON_ID(function, type, .bound = true, __VA_ARGS__)
#define ROOM(type)		       .room = sizeof(struct type)

static const struct urxe_command_kind kinds[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] =
		COMMAND(rdma_ucm_create_id, ROOM(rdma_ucm_create_id_resp), .fn = create_id),
	[RDMA_USER_CM_CMD_DESTROY_ID] =
		COMMAND(rdma_ucm_destroy_id, ROOM(rdma_ucm_destroy_id_resp), .fn = destroy_id),
	[RDMA_USER_CM_CMD_BIND_IP] = ABOUT_ID(rdma_ucm_bind_ip, .fn = urxe_command_bind_ip),
	[RDMA_USER_CM_CMD_RESOLVE_IP] =
		ABOUT_ID(rdma_ucm_resolve_ip, .fn = urxe_command_resolve_ip),
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = ON_DEVICE(resolve_route, rdma_ucm_resolve_route),
	[RDMA_USER_CM_CMD_QUERY_ROUTE] =
		ON_ID(urxe_command_query_route, rdma_ucm_query,
		      .room = offsetof(struct rdma_ucm_query_route_resp, ibdev_index)),
	[RDMA_USER_CM_CMD_CONNECT] = ON_DEVICE(connect_id, rdma_ucm_connect, .check = check_connect,
					       .oldest = END_OF(struct rdma_ucm_connect, reserved)),
	[RDMA_USER_CM_CMD_LISTEN] = ABOUT_ID(rdma_ucm_listen, .fn = listen_id),
	[RDMA_USER_CM_CMD_ACCEPT] = ON_DEVICE(accept_id, rdma_ucm_accept,
					      .oldest = END_OF(struct rdma_ucm_accept, reserved)),
	[RDMA_USER_CM_CMD_REJECT] = ON_DEVICE(reject_id, rdma_ucm_reject, .check = check_reject),
	[RDMA_USER_CM_CMD_DISCONNECT] = ON_DEVICE(disconnect_id, rdma_ucm_disconnect),
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] =
		ON_DEVICE(urxe_command_init_qp_attr, rdma_ucm_init_qp_attr, ROOM(ib_uverbs_qp_attr),
			  .check = urxe_command_check_qp_state),
	[RDMA_USER_CM_CMD_GET_EVENT] =
		COMMAND(rdma_ucm_get_event, .fn = get_event,
			.room = sizeof(struct rdma_ucm_event_resp) -
				sizeof(((struct rdma_ucm_event_resp *)0)->reserved) -
				sizeof(((struct rdma_ucm_event_resp *)0)->ece)),
	[RDMA_USER_CM_CMD_GET_OPTION] = {NULL}, /* -ENOSYS, there as well */
	[RDMA_USER_CM_CMD_SET_OPTION] =
		ABOUT_ID(rdma_ucm_set_option, .fn = urxe_command_set_option),
	[RDMA_USER_CM_CMD_NOTIFY] = ON_DEVICE(notify, rdma_ucm_notify),
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] =
		ABOUT_ID(rdma_ucm_join_ip_mcast, .fn = urxe_command_join_ip_mcast),
	[RDMA_USER_CM_CMD_LEAVE_MCAST] =
		COMMAND(rdma_ucm_destroy_id, ROOM(rdma_ucm_destroy_id_resp),
			.fn = urxe_command_leave_mcast),
	[RDMA_USER_CM_CMD_MIGRATE_ID] = COMMAND(rdma_ucm_migrate_id, .fn = migrate_id),
	[RDMA_USER_CM_CMD_QUERY] = ON_ID(urxe_command_query, rdma_ucm_query),
	[RDMA_USER_CM_CMD_BIND] = ABOUT_ID(rdma_ucm_bind, .fn = urxe_command_bind),
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] =
		ABOUT_ID(rdma_ucm_resolve_addr, .fn = urxe_command_resolve_addr),
	[RDMA_USER_CM_CMD_JOIN_MCAST] =
		ABOUT_ID(rdma_ucm_join_mcast, .fn = urxe_command_join_mcast),
};

static int run_on_id(const struct urxe_command *c, uint8_t *body)
{
	const struct urxe_command_kind *kind = c->kind;
	struct urxe_id *id;
	uint32_t handle;
	int ret;

	memcpy(&handle, body + kind->id_at, sizeof(handle));
	urxe_engine_lock();
	ret = kind->bound ? urxe_id_find_bound(c->file, handle, &id)
			  : urxe_id_find(c->file, handle, &id);
	if (!ret)
		ret = kind->on_id(id, c, body);
	urxe_engine_unlock();
	return ret;
}

static int run(const struct urxe_command *c)
{
	_Alignas(8) uint8_t body[URXE_COMMAND_MAX]; /* of which it has kind->size bytes */
	const struct urxe_command_kind *kind = c->kind;
	size_t size = kind->oldest && c->in < kind->size ? kind->oldest : kind->size;

	if (c->out < kind->room)
		return -ENOSPC;
	if (c->in < kind->oldest)
		return -EINVAL;
	if (urxe_command_take(c, body, size))
		return -EFAULT;
	memset(body + size, 0, kind->size - size);
	if (kind->check && !kind->check(body))
		return -EINVAL;
	return kind->fn ? kind->fn(c, body) : run_on_id(c, body);
}

ssize_t urxe_ucma_write(struct urxe_ucma *file, int fd, const void *buf, size_t len)
{
	struct rdma_ucm_cmd_hdr hdr;
	struct urxe_command cmd; /* of its bytes, only those that it has are read */
	int ret;

	if (urxe_ucma_is_stale(file))
		return -ENODEV;
	if (len < sizeof(hdr))
		return -EINVAL;
	if (urxe_user_read(&hdr, (uintptr_t)buf, sizeof(hdr)))
		return -EFAULT;
	if (hdr.cmd >= sizeof(kinds) / sizeof(kinds[0]) || hdr.in + sizeof(hdr) > len)
		return -EINVAL;
	if (!kinds[hdr.cmd].size)
		return -ENOSYS;
	cmd.file = file;
	cmd.fd = fd;
	cmd.cmd = hdr.cmd;
	cmd.kind = &kinds[hdr.cmd];
	cmd.in = hdr.in;
	cmd.out = hdr.out;
	cmd.from = (uintptr_t)buf + sizeof(hdr);
	cmd.have = hdr.in < sizeof(cmd.bytes) ? hdr.in : sizeof(cmd.bytes);
	if (urxe_user_read(cmd.bytes, cmd.from, cmd.have))
		return -EFAULT;
	ret = urxe_kernel_pass(&cmd);
	if (ret == URXE_OURS)
		ret = run(&cmd);
	return ret ? ret : (ssize_t)len;
}
