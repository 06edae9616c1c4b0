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
#include "cm/user_memory.h"
#include "hca/adapter.h"
#include "host/fd_files.h"
#include "host/libc.h"

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

static int resolve_route(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_resolve_route *cmd = body;
	struct urxe_id *id;
	int ret;

	urxe_engine_lock();
	ret = urxe_id_find_bound(c->file, cmd->id, &id);
	if (!ret)
		ret = urxe_id_resolve_route(id, cmd->timeout_ms);
	urxe_engine_unlock();
	return ret;
}

static int connect_id(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_connect *cmd = body;
	struct urxe_id *id;
	int ret;

	if (!cmd->conn_param.valid)
		return -EINVAL;
	urxe_engine_lock();
	ret = urxe_id_find_bound(c->file, cmd->id, &id);
	if (!ret)
		ret = urxe_id_connect(id, &cmd->conn_param, &cmd->ece);
	urxe_engine_unlock();
	return ret;
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
	ret = urxe_command_bind_any(c, cmd->id);
	if (!ret)
		ret = urxe_kernel_also(c, cmd->id);
	if (ret)
		return ret;
	urxe_engine_lock();
	ret = urxe_id_find(c->file, cmd->id, &id);
	if (!ret)
		ret = urxe_id_listen(id, cmd->backlog);
	urxe_engine_unlock();
	if (ret)
		urxe_kernel_unlisten(c->file, cmd->id);
	return ret;
}

static int accept_id(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_accept *cmd = body;
	struct urxe_id *id;
	int ret;

	urxe_engine_lock();
	ret = urxe_id_find_bound(c->file, cmd->id, &id);
	if (!ret)
		ret = urxe_id_accept(id, cmd->conn_param.valid ? &cmd->conn_param : NULL,
				     &cmd->ece);
	if (!ret && cmd->conn_param.valid)
		id->uid = cmd->uid;
	urxe_engine_unlock();
	return ret;
}

static int reject_id(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_reject *cmd = body;
	struct urxe_id *id;
	int ret;

	if (!cmd->reason)
		cmd->reason = URXE_CM_REJ_CONSUMER_DEFINED;
	if (cmd->reason != URXE_CM_REJ_CONSUMER_DEFINED &&
	    cmd->reason != URXE_CM_REJ_VENDOR_OPTION_NOT_SUPPORTED)
		return -EINVAL;
	urxe_engine_lock();
	ret = urxe_id_find_bound(c->file, cmd->id, &id);
	if (!ret)
		ret = urxe_id_reject(id, cmd->private_data, cmd->private_data_len, cmd->reason);
	urxe_engine_unlock();
	return ret;
}

static int disconnect_id(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_disconnect *cmd = body;
	struct urxe_id *id;
	int ret;

	urxe_engine_lock();
	ret = urxe_id_find_bound(c->file, cmd->id, &id);
	if (!ret)
		ret = urxe_id_disconnect(id);
	urxe_engine_unlock();
	return ret;
}

static int notify(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_notify *cmd = body;
	struct urxe_id *id;
	int ret;

	urxe_engine_lock();
	ret = urxe_id_find_bound(c->file, cmd->id, &id);
	if (!ret)
		ret = urxe_id_notify(id, cmd->event);
	urxe_engine_unlock();
	return ret;
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

/* size: of its structure; room: the least for the answer; oldest: the size of the structure's first
 * form, where it has grown. */
#define COMMAND(function, type, ...)                                     \
	{                                                                \
		.fn = function, .size = sizeof(struct type), __VA_ARGS__ \
	}
#define ROOM(type) .room = sizeof(struct type)

static const struct command {
	int (*fn)(const struct urxe_command *cmd, void *body);
	size_t size, room, oldest;
} commands[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] =
		COMMAND(create_id, rdma_ucm_create_id, ROOM(rdma_ucm_create_id_resp)),
	[RDMA_USER_CM_CMD_DESTROY_ID] =
		COMMAND(destroy_id, rdma_ucm_destroy_id, ROOM(rdma_ucm_destroy_id_resp)),
	[RDMA_USER_CM_CMD_BIND_IP] = COMMAND(urxe_command_bind_ip, rdma_ucm_bind_ip),
	[RDMA_USER_CM_CMD_RESOLVE_IP] = COMMAND(urxe_command_resolve_ip, rdma_ucm_resolve_ip),
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = COMMAND(resolve_route, rdma_ucm_resolve_route),
	[RDMA_USER_CM_CMD_QUERY_ROUTE] =
		COMMAND(urxe_command_query_route, rdma_ucm_query,
			.room = offsetof(struct rdma_ucm_query_route_resp, ibdev_index)),
	[RDMA_USER_CM_CMD_CONNECT] = COMMAND(connect_id, rdma_ucm_connect,
					     .oldest = END_OF(struct rdma_ucm_connect, reserved)),
	[RDMA_USER_CM_CMD_LISTEN] = COMMAND(listen_id, rdma_ucm_listen),
	[RDMA_USER_CM_CMD_ACCEPT] = COMMAND(accept_id, rdma_ucm_accept,
					    .oldest = END_OF(struct rdma_ucm_accept, reserved)),
	[RDMA_USER_CM_CMD_REJECT] = COMMAND(reject_id, rdma_ucm_reject),
	[RDMA_USER_CM_CMD_DISCONNECT] = COMMAND(disconnect_id, rdma_ucm_disconnect),
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] =
		COMMAND(urxe_command_init_qp_attr, rdma_ucm_init_qp_attr, ROOM(ib_uverbs_qp_attr)),
	[RDMA_USER_CM_CMD_GET_EVENT] =
		COMMAND(get_event, rdma_ucm_get_event,
			.room = sizeof(struct rdma_ucm_event_resp) -
				sizeof(((struct rdma_ucm_event_resp *)0)->reserved) -
				sizeof(((struct rdma_ucm_event_resp *)0)->ece)),
	[RDMA_USER_CM_CMD_GET_OPTION] = {NULL}, /* -ENOSYS, there as well */
	[RDMA_USER_CM_CMD_SET_OPTION] = COMMAND(urxe_command_set_option, rdma_ucm_set_option),
	[RDMA_USER_CM_CMD_NOTIFY] = COMMAND(notify, rdma_ucm_notify),
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] =
		COMMAND(urxe_command_join_ip_mcast, rdma_ucm_join_ip_mcast),
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = COMMAND(urxe_command_leave_mcast, rdma_ucm_destroy_id,
						 ROOM(rdma_ucm_destroy_id_resp)),
	[RDMA_USER_CM_CMD_MIGRATE_ID] = COMMAND(migrate_id, rdma_ucm_migrate_id),
	[RDMA_USER_CM_CMD_QUERY] = COMMAND(urxe_command_query, rdma_ucm_query),
	[RDMA_USER_CM_CMD_BIND] = COMMAND(urxe_command_bind, rdma_ucm_bind),
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = COMMAND(urxe_command_resolve_addr, rdma_ucm_resolve_addr),
	[RDMA_USER_CM_CMD_JOIN_MCAST] = COMMAND(urxe_command_join_mcast, rdma_ucm_join_mcast),
};

static int run(const struct urxe_command *c, const struct command *command)
{
	_Alignas(8) uint8_t body[URXE_COMMAND_MAX] = {0};
	bool short_form = command->oldest && c->in < command->size;

	if (c->out < command->room)
		return -ENOSPC;
	if (c->in < command->oldest)
		return -EINVAL;
	if (urxe_command_take(c, body, short_form ? command->oldest : command->size))
		return -EFAULT;
	return command->fn(c, body);
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
	if (hdr.cmd >= sizeof(commands) / sizeof(commands[0]) || hdr.in + sizeof(hdr) > len)
		return -EINVAL;
	if (!commands[hdr.cmd].fn)
		return -ENOSYS;
	cmd.file = file;
	cmd.fd = fd;
	cmd.cmd = hdr.cmd;
	cmd.in = hdr.in;
	cmd.out = hdr.out;
	cmd.from = (uintptr_t)buf + sizeof(hdr);
	cmd.have = hdr.in < sizeof(cmd.bytes) ? hdr.in : sizeof(cmd.bytes);
	if (urxe_user_read(cmd.bytes, cmd.from, cmd.have))
		return -EFAULT;
	ret = urxe_kernel_pass(&cmd);
	if (ret == URXE_OURS)
		ret = run(&cmd, &commands[hdr.cmd]);
	return ret ? ret : (ssize_t)len;
}
