/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains (IBTA vol. 1, 11.2.2) and address handles (11.2.2.4). Any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/engine.h"

static _Atomic uint32_t next_pd = 1;

struct ibv_pd *urxe_alloc_pd(struct ibv_context *context)
{
	struct urxe_pd *pd;

	if (to_context(context)->stale) {
		errno = EIO;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->ibv.context = context;
	pd->number = atomic_fetch_add(&next_pd, 1);
	pd->ibv.handle = pd->number;
	return &pd->ibv;
}

int urxe_dealloc_pd(struct ibv_pd *ibv)
{
	struct urxe_pd *pd = to_pd(ibv);

	if (atomic_load(&pd->users))
		return EBUSY;
	if (pd->of)
		atomic_fetch_sub(&pd->of->users, 1);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	free(pd);
	return 0;
}

/* ibv_alloc_parent_domain(3): the same protection domain under a handle of its own. */
struct ibv_pd *urxe_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr)
{
	struct urxe_pd *of, *pd;

	if (!attr->pd || attr->pd->context != context ||
	    (attr->td && attr->td->context != context)) {
		errno = EINVAL;
		return NULL;
	}
	/* Queues are not made in memory of the program's. */
	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	of = to_pd(attr->pd);
	/* A parent domain of a parent domain would not tell more. */
	if (of->of) {
		errno = EINVAL;
		return NULL;
	}
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	pd->ibv.context = context;
	pd->number = of->number;
	pd->ibv.handle = of->ibv.handle;
	pd->of = of;
	atomic_fetch_add(&of->users, 1);
	if (attr->td) {
		pd->td = caa_container_of(attr->td, struct urxe_td, ibv);
		atomic_fetch_add(&pd->td->users, 1);
	}
	return &pd->ibv;
}

struct ibv_td *urxe_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct urxe_td *td;

	if (attr->comp_mask) {
		errno = EINVAL;
		return NULL;
	}
	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->ibv.context = context;
	return &td->ibv;
}

int urxe_dealloc_td(struct ibv_td *ibv)
{
	struct urxe_td *td = caa_container_of(ibv, struct urxe_td, ibv);

	if (atomic_load(&td->users))
		return EBUSY;
	free(td);
	return 0;
}

/*
 * An address vector becomes a path. RoCE has no LIDs: it must carry a GRH (annex A17.4.1), whose
 * source GID is one that the port has.
 */
int urxe_path_from_av(struct urxe_context *ctx, const struct ibv_ah_attr *attr, uint32_t hash,
		      struct urxe_path *path)
{
	struct urxe_device *dev = ctx->dev;
	const struct ibv_global_route *grh = &attr->grh;
	static const union ibv_gid none;
	union ibv_gid sgid;

	if (attr->port_num != 1 || !attr->is_global || grh->sgid_index >= URXE_MAX_GIDS)
		return -EINVAL;
	urxe_device_lock();
	sgid = dev->gids[grh->sgid_index];
	urxe_device_unlock();
	if (!memcmp(&sgid, &none, sizeof(none)))
		return -EINVAL;
	return urxe_wire_path_init(path, dev, &sgid, &grh->dgid, grh->traffic_class, grh->hop_limit,
				   grh->flow_label, hash);
}

/*
 * RoCE has no address handles without a GRH, since there are no LIDs: an adapter refuses them. But
 * rsockets make one, by the LID of their port (0), for datagrams to their own QP, and do not work
 * without. So where the PD has something that could send there, it names this port; it goes out and
 * comes in by the first GID.
 */
static int path_to_self(struct urxe_pd *pd, struct urxe_context *ctx,
			const struct ibv_ah_attr *attr, struct urxe_path *path)
{
	static const union ibv_gid none;
	struct urxe_device *dev = ctx->dev;
	union ibv_gid gid = none;

	if (attr->port_num != 1 || attr->dlid || !atomic_load(&pd->users))
		return -EINVAL;
	urxe_device_lock();
	for (unsigned i = 0; i < dev->gid_len && !memcmp(&gid, &none, sizeof(none)); i++)
		gid = dev->gids[i];
	urxe_device_unlock();
	if (!memcmp(&gid, &none, sizeof(none)))
		return -EINVAL;
	return urxe_wire_path_init(path, dev, &gid, &gid, 0, 0, 0, 0);
}

struct ibv_ah *urxe_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct urxe_ah *ah;
	int ret;

	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	if (attr->is_global)
		ret = urxe_path_from_av(to_context(pd->context), attr, attr->grh.flow_label,
					&ah->path);
	else
		ret = path_to_self(to_pd(pd), to_context(pd->context), attr, &ah->path);
	if (ret) {
		free(ah);
		errno = -ret;
		return NULL;
	}
	ah->attr = *attr;
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	atomic_fetch_add(&to_pd(pd)->users, 1);
	return &ah->ibv;
}

int urxe_destroy_ah(struct ibv_ah *ibv)
{
	atomic_fetch_sub(&to_pd(ibv->pd)->users, 1);
	free(to_ah(ibv));
	return 0;
}

/* The GIDs of a UD receive: its GRH area holds a GRH or, in its last 20 bytes, an IPv4 header. */
static void gids_of_grh(const struct ibv_grh *grh, union ibv_gid *sgid, union ibv_gid *dgid,
			uint8_t *tclass, uint32_t *flow)
{
	const uint8_t *ip = (const uint8_t *)grh + 20;
	uint32_t word = be32toh(grh->version_tclass_flow);

	*flow = 0;
	if (word >> 28 == 6) {
		*sgid = grh->sgid;
		*dgid = grh->dgid;
		*tclass = word >> 20;
		*flow = word & 0xfffff;
		return;
	}
	memset(sgid, 0, sizeof(*sgid));
	memset(dgid, 0, sizeof(*dgid));
	sgid->raw[10] = sgid->raw[11] = dgid->raw[10] = dgid->raw[11] = 0xff;
	memcpy(sgid->raw + 12, ip + 12, 4);
	memcpy(dgid->raw + 12, ip + 16, 4);
	*tclass = ip[1];
}

/* The index of a GID; of the first one of its family for a multicast group. -1: none. */
static int find_gid(struct urxe_device *dev, const union ibv_gid *gid)
{
	const struct in6_addr *addr = (const struct in6_addr *)gid;
	bool v4 = IN6_IS_ADDR_V4MAPPED(addr);
	bool multicast = v4 ? (addr->s6_addr[12] & 0xf0) == 0xe0 : addr->s6_addr[0] == 0xff;
	int found = -1;

	urxe_device_lock();
	for (unsigned i = 0; i < dev->gid_len && found < 0; i++) {
		const struct in6_addr *own = (const struct in6_addr *)&dev->gids[i];

		if (!multicast && !memcmp(own, gid, sizeof(*gid)))
			found = i;
		else if (multicast && !IN6_IS_ADDR_UNSPECIFIED(own) &&
			 !!IN6_IS_ADDR_V4MAPPED(own) == v4)
			found = i;
	}
	urxe_device_unlock();
	return found;
}

int urxe_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			 struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	union ibv_gid sgid, dgid;
	uint8_t tclass;
	uint32_t flow;
	int index;

	memset(attr, 0, sizeof(*attr));
	if (!(wc->wc_flags & IBV_WC_GRH)) {
		errno = EINVAL;
		return -1;
	}
	gids_of_grh(grh, &sgid, &dgid, &tclass, &flow);
	index = find_gid(to_context(context)->dev, &dgid);
	if (index < 0) {
		errno = EINVAL;
		return -1;
	}
	attr->port_num = port; /* and no SL: wc->sl says something else */
	attr->is_global = 1;
	attr->grh.dgid = sgid;
	attr->grh.sgid_index = index;
	attr->grh.hop_limit = 0xff;
	attr->grh.traffic_class = tclass;
	attr->grh.flow_label = flow;
	return 0;
}

struct ibv_ah *urxe_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				      uint8_t port)
{
	struct ibv_ah_attr attr;

	if (urxe_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return urxe_create_ah(pd, &attr);
}

/* The kernel resolves neighbours for us when we send; no program needs the MAC to reach anyone. */
int urxe_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				 uint8_t mac[6], uint16_t *vid)
{
	if (!attr->is_global)
		return EINVAL;
	memset(mac, 0, 6);
	if (vid)
		*vid = 0xffff;
	return 0;
}
