/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * An id's way to an address, a port, a route and listening: the checks, states and errors of
 * rdma_bind_addr(3), rdma_resolve_addr(3), rdma_resolve_route(3) and rdma_listen(3). Under the
 * engine lock; what needs the kernel's routes was asked before (address.h).
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cm/id.h"
#include "hca/adapter.h"
#include "cm/port_space.h"

#define PRIVILEGED_PORTS 1024
#define PACKET_LIFE_TIME \
	16 /* 4.096 µs << 16 = 0.27 s: as rdma_cm of recent kernels has it for RoCE */
#define HOP_LIMIT 64

/* Service IDs of IP port spaces, and the bits that name the space (annex A11.4.1). */
#define SID_SPACE_MASK 0xffffffffffff0000ull
#define SID_SPACE(ps)  ((uint64_t)(ps) << 16)

static bool may_bind_privileged(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {0};

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[0].effective & (1u << CAP_NET_BIND_SERVICE);
}

/* The port space that an AF_IB address is in by its service ID; 0: none that the id may use. */
static uint16_t space_of_service(const struct urxe_id *id, struct urxe_sockaddr_ib *ib)
{
	static const uint16_t spaces[] = {RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP};
	uint64_t mask = be64toh(ib->sid_mask) & SID_SPACE_MASK, sid = be64toh(ib->sid) & mask;

	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		uint16_t ps = spaces[i];

		if ((id->ps != RDMA_PS_IB && id->ps != ps) || sid != (SID_SPACE(ps) & mask))
			continue;
		ib->sid = htobe64(SID_SPACE(ps) | (uint16_t)be64toh(ib->sid & ib->sid_mask));
		ib->sid_mask |= htobe64(SID_SPACE_MASK);
		return ps;
	}
	return 0;
}

uint64_t urxe_id_service_id(const struct urxe_id *id, const union urxe_sockaddr *addr)
{
	if (addr->family == AF_IB)
		return be64toh(addr->ib.sid);
	return urxe_cma_service_id(id->ps, urxe_sockaddr_port(addr));
}

void urxe_id_attach(struct urxe_id *id, struct urxe_port *port)
{
	id->port = port;
	id->pkey = urxe_address_pkey(port, &id->src);
	urxe_address_gid(port, &id->src, &id->sgid);
	id->ifindex = urxe_port_ifindex(port);
	urxe_port_mac(port, id->mac);
}

/* Takes the port of id->src, or an ephemeral one, which it fills in. addr: where it will be
 * found. */
static int take_port(struct urxe_id *id, const union urxe_sockaddr *addr)
{
	struct urxe_binding b = {.ps = id->ps,
				 .port = urxe_sockaddr_port(&id->src),
				 .v6only = id->options.afonly,
				 .reuse = id->options.reuse,
				 .id = id->handle};
	struct urxe_port_row *port;
	int ret;

	if (id->src.family == AF_IB)
		b.ps = space_of_service(id, &id->src.ib);
	if (!b.ps)
		return -EPROTONOSUPPORT;
	if (b.port && b.port < PRIVILEGED_PORTS && !may_bind_privileged())
		return -EACCES;
	urxe_sockaddr_in6(addr, &b.addr);
	if (urxe_sockaddr_is_linklocal(&id->src))
		b.scope = id->src.v6.sin6_scope_id;
	if (urxe_sockaddr_port(&id->dst) && !urxe_sockaddr_is_any(&id->dst)) {
		urxe_sockaddr_in6(&id->dst, &b.peer);
		b.peer_port = urxe_sockaddr_port(&id->dst);
	}
	port = calloc(1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	ret = urxe_port_space_bind(urxe_adapter_segment(), &b, &port->row);
	if (ret) {
		free(port);
		return ret;
	}
	port->users = 1;
	id->binding = port;
	urxe_sockaddr_set_port(&id->src, b.port);
	return 0;
}

void urxe_port_row_put(struct urxe_port_row *row)
{
	if (--row->users)
		return;
	if (urxe_adapter_segment())
		urxe_segment_port_release(urxe_adapter_segment(), row->row);
	free(row);
}

void urxe_id_unbind(struct urxe_id *id)
{
	urxe_id_query_stop(id);
	if (!id->binding)
		return;
	if (id->binding->users > 1)
		urxe_port_space_linger(urxe_adapter_segment(), id->binding->row);
	urxe_port_row_put(id->binding);
	id->binding = NULL;
}

void urxe_id_unbind_any(struct urxe_id *id)
{
	urxe_id_unbind(id);
	memset(&id->src, 0, sizeof(id->src));
	id->dst.family = 0;
	id->state = URXE_ID_IDLE;
}

static int check_scope(struct urxe_id *id, const union urxe_sockaddr *addr)
{
	if (!urxe_sockaddr_is_linklocal(addr))
		return 0;
	if (!addr->v6.sin6_scope_id)
		return -EINVAL;
	id->ifindex = addr->v6.sin6_scope_id;
	return 0;
}

/* With id->dst set as far as it is known. */
static int bind_to(struct urxe_id *id, const union urxe_sockaddr *addr,
		   const struct urxe_source *found)
{
	union urxe_sockaddr old = id->src;
	int ret;

	if (!urxe_sockaddr_size(addr->family))
		return -EAFNOSUPPORT;
	if (id->state != URXE_ID_IDLE)
		return -EINVAL;
	ret = check_scope(id, addr);
	if (!ret)
		ret = found->error;
	if (!ret && !id->file->manager)
		ret = -ENODEV;
	if (ret)
		return ret;
	memset(&id->src, 0, sizeof(id->src));
	memcpy(&id->src, addr, urxe_sockaddr_size(addr->family));
	if (!id->options.afonly_set && addr->family != AF_IB)
		id->options.afonly = addr->family == AF_INET || found->v6only;
	ret = take_port(id, found->addr.family ? &found->addr : addr);
	if (ret) {
		id->src = old;
		return ret;
	}
	if (found->port)
		urxe_id_attach(id, found->port);
	id->state = URXE_ID_ADDR_BOUND;
	return 0;
}

int urxe_id_bind(struct urxe_id *id, const union urxe_sockaddr *addr,
		 const struct urxe_source *found)
{
	int ret = bind_to(id, addr, found);

	if (!ret)
		id->dst.family = addr->family;
	return ret;
}

int urxe_id_listen(struct urxe_id *id, uint32_t backlog)
{
	static const union urxe_sockaddr any = {.v4 = {.sin_family = AF_INET}};
	static const struct urxe_source anywhere;
	int ret = 0;

	if (id->state != URXE_ID_ADDR_BOUND)
		ret = urxe_id_bind(id, &any, &anywhere);
	if (!ret)
		ret = urxe_port_space_listen(urxe_adapter_segment(), id->binding->row);
	if (ret)
		return ret;
	id->options.reuse = false;
	id->backlog = backlog;
	id->state = URXE_ID_LISTEN;
	return 0;
}

/* A port that is bound already gets the options that its id has now. */
static void renew_binding(const struct urxe_id *id)
{
	if (id->binding)
		urxe_port_space_set_options(urxe_adapter_segment(), id->binding->row,
					    id->options.afonly, id->options.reuse);
}

int urxe_id_set_reuseaddr(struct urxe_id *id, bool on)
{
	if (id->state != URXE_ID_IDLE && !(on && id->state != URXE_ID_LISTEN))
		return -EINVAL;
	id->options.reuse = on;
	renew_binding(id);
	return 0;
}

int urxe_id_set_afonly(struct urxe_id *id, bool on)
{
	if (id->state != URXE_ID_IDLE && id->state != URXE_ID_ADDR_BOUND)
		return -EINVAL;
	id->options.afonly_set = true;
	id->options.afonly = on;
	renew_binding(id);
	return 0;
}

/* Binds an id that is not bound to src, or where that is not given to any address. */
static int bind_before_resolving(struct urxe_id *id, const union urxe_sockaddr *src,
				 const struct urxe_source *local, const union urxe_sockaddr *dst)
{
	union urxe_sockaddr any = {.family = dst->family}, old = id->dst;
	int ret;

	if (id->state == URXE_ID_IDLE) {
		if (!src->family && dst->family == AF_INET6)
			any.v6.sin6_scope_id = dst->v6.sin6_scope_id;
		id->dst = *dst;
		ret = bind_to(id, src->family ? src : &any, local);
		if (ret) {
			id->dst = old;
			return ret;
		}
	}
	if (id->state != URXE_ID_ADDR_BOUND)
		return -EINVAL;
	id->dst = *dst;
	return id->src.family == dst->family ? 0 : -EINVAL;
}

/* The source address that was found, with the port that the id has taken. */
static void set_source(struct urxe_id *id, const union urxe_sockaddr *found)
{
	uint16_t port = urxe_sockaddr_port(&id->src);

	if (found->family == AF_IB) { /* the port is in a service ID, whose space is the id's */
		id->src.ib.addr = found->ib.addr;
		id->src.ib.pkey = found->ib.pkey;
		return;
	}
	id->src = *found;
	urxe_sockaddr_set_port(&id->src, port);
}

void urxe_id_resolved(struct urxe_id *id, const struct urxe_source *found)
{
	int ret;

	if (!id->port) {
		set_source(id, &found->addr);
		urxe_id_attach(id, found->port);
	}
	ret = urxe_address_gid(id->port, &id->dst, &id->dgid);
	if (ret) {
		id->state = URXE_ID_ADDR_BOUND;
		urxe_id_report(id, URXE_EVENT_ADDR_ERROR, ret);
		return;
	}
	id->state = URXE_ID_ADDR_RESOLVED;
	urxe_id_report(id, URXE_EVENT_ADDR_RESOLVED, 0);
}

int urxe_id_resolve_addr(struct urxe_id *id, const union urxe_sockaddr *src,
			 const struct urxe_source *local, const union urxe_sockaddr *dst,
			 const struct urxe_source *found, uint32_t timeout_ms)
{
	int ret = bind_before_resolving(id, src, local, dst);

	if (!ret)
		ret = found->error;
	if (ret)
		return ret;
	if (!id->port && !found->port) {
		urxe_id_report(id, URXE_EVENT_ADDR_ERROR, -ENODEV);
		return 0;
	}
	if (found->unresolved)
		return urxe_id_query_start(id, found, timeout_ms);
	urxe_id_resolved(id, found);
	return 0;
}

/* What the kernel has a sender choose for RoCE: the address's own, else a hash of the ports. */
static uint32_t flow_label(const struct urxe_id *id)
{
	uint32_t label = 0;

	if (id->src.family == AF_INET6)
		label = be32toh(id->src.v6.sin6_flowinfo) & 0xfffff;
	if (!label)
		label = (urxe_sockaddr_port(&id->src) * 31u + urxe_sockaddr_port(&id->dst)) &
			0xfffff;
	return label;
}

static int set_paths(struct urxe_id *id, const struct ibv_path_record *path)
{
	struct ibv_path_record *paths = malloc(sizeof(*paths));

	if (!paths)
		return -ENOMEM;
	*paths = *path;
	free(id->paths);
	id->paths = paths;
	id->num_paths = 1;
	id->state = URXE_ID_ROUTE_RESOLVED;
	return 0;
}

/* Where there is no SA to ask the record is made here, of what is known. */
static void make_record(const struct urxe_id *id, struct ibv_path_record *record)
{
	struct urxe_cm_path path = {.pkey = id->pkey, .packet_life_time = PACKET_LIFE_TIME};
	struct ibv_ah_attr attr = {
		.grh.flow_label = flow_label(id),
		.grh.hop_limit = HOP_LIMIT,
		.grh.traffic_class = id->options.tos_set ? id->options.tos : 0,
	};

	attr.grh.dgid = id->dgid;
	urxe_device_lock();
	path.mtu = id->port->active_mtu;
	urxe_device_unlock();
	if (id->options.timeout_set && id->options.timeout)
		path.packet_life_time = id->options.timeout - 1;
	urxe_path_record(record, &path, &id->sgid, &attr, 0);
}

void urxe_id_route_answered(struct urxe_id *id, const struct ibv_path_record *path, int error)
{
	id->state = URXE_ID_ADDR_RESOLVED;
	if (!error)
		error = set_paths(id, path);
	urxe_id_report(id, error ? URXE_EVENT_ROUTE_ERROR : URXE_EVENT_ROUTE_RESOLVED, error);
}

int urxe_id_resolve_route(struct urxe_id *id, uint32_t timeout_ms)
{
	struct ibv_path_record record;
	int ret;

	if (!timeout_ms || id->state != URXE_ID_ADDR_RESOLVED)
		return -EINVAL;
	if (urxe_port_is_gone(id->port))
		return -ENODEV;
	ret = urxe_sa_ask_path(id, timeout_ms);
	if (ret <= 0)
		return ret;
	make_record(id, &record);
	return urxe_id_set_path(id, &record);
}

int urxe_id_set_path(struct urxe_id *id, const struct ibv_path_record *path)
{
	int ret;

	if (id->state != URXE_ID_ADDR_RESOLVED)
		return -EINVAL;
	ret = set_paths(id, path);
	if (!ret)
		urxe_id_report(id, URXE_EVENT_ROUTE_RESOLVED, 0);
	return ret;
}
