/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Commands of an rdma_cm file that carry addresses: bind, resolve, and multicast. Each comes in two
 * forms: the older one has room for IPv6, the newer one for any family and says how long it is.
 * The kernel's routes are asked without the engine lock. Any thread.
 */
#include <errno.h>
#include <string.h>

#include "cm/id.h"
#include "cm/kernel.h"
#include "cm/ucma_command.h"
#include "hca/adapter.h"
#include "host/user_memory.h"

#define MAX_TRIES 16 /* to find an ephemeral port that is free on both sides */

/* An address of a command, which has that much room for it. Its size; 0: there is no such family,
 * or it does not fit. */
static unsigned take_addr(union urxe_sockaddr *to, const void *from, size_t room)
{
	unsigned size;

	memset(to, 0, sizeof(*to));
	memcpy(&to->family, from, sizeof(to->family));
	size = urxe_sockaddr_size(to->family);
	if (size > room)
		return 0;
	memcpy(to, from, size);
	return size;
}
#define TAKE_ADDR(to, from) take_addr(to, &(from), sizeof(from))

static int bind_here(struct urxe_ucma *file, uint32_t handle, const union urxe_sockaddr *addr,
		     const struct urxe_source *found)
{
	struct urxe_id *id;
	int ret;

	urxe_engine_lock();
	ret = urxe_id_find(file, handle, &id) ?: urxe_id_bind(id, addr, found);
	urxe_engine_unlock();
	return ret;
}

static void unbind_here(struct urxe_ucma *file, uint32_t handle)
{
	struct urxe_id *id;

	urxe_engine_lock();
	if (!urxe_id_find(file, handle, &id))
		urxe_id_unbind_any(id);
	urxe_engine_unlock();
}

/* To an any-address: where the kernel has an rdma_cm as well, to the same port there. */
static int bind_both(const struct urxe_command *c, uint32_t handle, const union urxe_sockaddr *addr,
		     const struct urxe_source *found)
{
	int ret;

	for (int tries = 0;; tries++) {
		ret = bind_here(c->file, handle, addr, found);
		if (ret)
			return ret;
		ret = urxe_kernel_bind_any(c->file, handle);
		if (!ret)
			return 0;
		unbind_here(c->file, handle);
		if (urxe_sockaddr_port(addr) || tries == MAX_TRIES)
			return ret;
	}
}

/* Can an id of ours be bound now? One that is bound already gets our answer to that. */
static bool is_idle(struct urxe_ucma *file, uint32_t handle)
{
	struct urxe_id *id;
	bool idle;

	urxe_engine_lock();
	idle = !urxe_id_find(file, handle, &id) && id->state == URXE_ID_IDLE;
	urxe_engine_unlock();
	return idle;
}

static int bind_id(const struct urxe_command *c, uint32_t handle, const union urxe_sockaddr *addr)
{
	struct urxe_source found;
	int ret = URXE_OURS;

	urxe_address_local(addr, &found);
	/* What is nobody's address here, or cannot be served here, is the kernel's business. */
	if ((found.error || !c->file->manager) && is_idle(c->file, handle))
		ret = urxe_kernel_take(c, handle);
	if (ret != URXE_OURS)
		return ret;
	if (found.port || found.error)
		return bind_here(c->file, handle, addr, &found);
	return bind_both(c, handle, addr, &found);
}

int urxe_command_bind_any(const struct urxe_command *c, uint32_t handle)
{
	static const union urxe_sockaddr any = {.v4 = {.sin_family = AF_INET}};
	static const struct urxe_source anywhere;

	if (!is_idle(c->file, handle))
		return 0;
	return bind_both(c, handle, &any, &anywhere);
}

int urxe_command_bind_ip(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_bind_ip *cmd = body;
	union urxe_sockaddr addr;

	if (!TAKE_ADDR(&addr, cmd->addr))
		return -EINVAL;
	return bind_id(c, cmd->id, &addr);
}

int urxe_command_bind(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_bind *cmd = body;
	union urxe_sockaddr addr;

	if (cmd->reserved || !cmd->addr_size || cmd->addr_size != TAKE_ADDR(&addr, cmd->addr))
		return -EINVAL;
	return bind_id(c, cmd->id, &addr);
}

/* An any-address as a destination means this host. */
static void set_loopback(union urxe_sockaddr *dst)
{
	if (dst->family == AF_INET)
		dst->v4.sin_addr.s_addr = htobe32(INADDR_LOOPBACK);
	else if (dst->family == AF_INET6)
		dst->v6.sin6_addr = in6addr_loopback;
}

/* The source that an id has, if it is bound; else the one it is to have. */
static int source_of(struct urxe_ucma *file, uint32_t handle, union urxe_sockaddr *src, bool *bound,
		     bool *open)
{
	struct urxe_id *id;
	int ret;

	urxe_engine_lock();
	ret = urxe_id_find(file, handle, &id);
	if (!ret) {
		*bound = id->state != URXE_ID_IDLE;
		*open = !*bound || (id->state == URXE_ID_ADDR_BOUND && !id->port);
		if (*bound)
			*src = id->src;
	}
	urxe_engine_unlock();
	return ret;
}

static int resolve(const struct urxe_command *c, uint32_t handle, const union urxe_sockaddr *src,
		   union urxe_sockaddr *dst, uint32_t timeout_ms)
{
	union urxe_sockaddr from = *src;
	struct urxe_source local = {0}, found;
	struct urxe_ucma *file = c->file;
	struct urxe_id *id;
	bool bound, open; /* open: it is not decided whose the id is */
	int ret = source_of(file, handle, &from, &bound, &open);

	if (ret)
		return ret;
	if (urxe_sockaddr_is_any(dst))
		set_loopback(dst);
	urxe_address_this_host(dst);
	if (!from.family)
		from.family = dst->family;
	if (!bound)
		urxe_address_local(&from, &local);
	urxe_address_source(&from, dst, &found);
	if (open && (local.error || !found.port || !file->manager)) {
		ret = urxe_kernel_take(c, handle);
		if (ret != URXE_OURS)
			return ret;
	}
	urxe_kernel_leave(file, handle);
	urxe_engine_lock();
	ret = urxe_id_find(file, handle, &id)
		      ?: urxe_id_resolve_addr(id, src, &local, dst, &found, timeout_ms);
	urxe_engine_unlock();
	return ret;
}

int urxe_command_resolve_ip(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_resolve_ip *cmd = body;
	union urxe_sockaddr src, dst;
	unsigned size = TAKE_ADDR(&src, cmd->src_addr);

	if ((src.family && !size) || !TAKE_ADDR(&dst, cmd->dst_addr))
		return -EINVAL;
	return resolve(c, cmd->id, &src, &dst, cmd->timeout_ms);
}

int urxe_command_resolve_addr(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_resolve_addr *cmd = body;
	union urxe_sockaddr src, dst;
	unsigned size = TAKE_ADDR(&src, cmd->src_addr);

	if (cmd->reserved || (cmd->src_size && cmd->src_size != size) || !cmd->dst_size ||
	    cmd->dst_size != TAKE_ADDR(&dst, cmd->dst_addr))
		return -EINVAL;
	return resolve(c, cmd->id, &src, &dst, cmd->timeout_ms);
}

static int join(const struct urxe_command *c, const struct rdma_ucm_join_mcast *cmd,
		const union urxe_sockaddr *addr, unsigned size)
{
	struct rdma_ucm_create_id_resp resp;
	struct urxe_id_mcast *mcast;
	struct urxe_id *id;
	int ret;

	if (c->out < sizeof(resp))
		return -ENOSPC;
	if (cmd->addr_size != size || cmd->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	urxe_engine_lock();
	ret = urxe_id_find_bound(c->file, cmd->id, &id);
	if (!ret)
		ret = urxe_id_join(id, addr, cmd->uid,
				   cmd->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
				   &mcast);
	if (!ret) {
		resp.id = mcast->handle;
		ret = urxe_user_write(cmd->response, &resp, sizeof(resp));
		if (ret)
			urxe_id_leave(mcast);
	}
	urxe_engine_unlock();
	return ret;
}

int urxe_command_join_ip_mcast(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_join_ip_mcast *cmd = body;
	struct rdma_ucm_join_mcast any;
	union urxe_sockaddr addr;
	unsigned size = TAKE_ADDR(&addr, cmd->addr);

	if (!size)
		return -EINVAL;
	any = (struct rdma_ucm_join_mcast){
		.response = cmd->response,
		.uid = cmd->uid,
		.id = cmd->id,
		.addr_size = size,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
	};
	return join(c, &any, &addr, size);
}

int urxe_command_join_mcast(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_join_mcast *cmd = body;
	union urxe_sockaddr addr;
	unsigned size = TAKE_ADDR(&addr, cmd->addr);

	return size ? join(c, cmd, &addr, size) : -EINVAL;
}

int urxe_command_leave_mcast(const struct urxe_command *c, void *body)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id *cmd = body;
	struct urxe_id_mcast *mcast;
	int ret = urxe_kernel_leave_mcast(c, cmd->id, &resp.events_reported);

	if (ret == URXE_OURS) {
		urxe_engine_lock();
		mcast = urxe_handle_get(URXE_HANDLE_MCAST, cmd->id);
		ret = !mcast ? -ENOENT : mcast->id->file != c->file ? -EINVAL : 0;
		if (!ret)
			resp.events_reported = urxe_id_leave(mcast);
		urxe_engine_unlock();
	}
	return ret ? ret : urxe_user_write(cmd->response, &resp, sizeof(resp));
}
