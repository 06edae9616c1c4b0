/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Protection domains (IBTA vol. 1, 11.2.2) and address handles (11.2.2.4). Any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "hca/engine.h"

/*
 * The number of a PD: our slot, and its place in this set. Processes that import each other's PDs
 * thus have no two of one number.
 */
static _Atomic uint64_t numbers[URXE_MAX_PD / 64];
static _Atomic uint32_t next_number;

static bool take_number(uint32_t *number)
{
	for (uint32_t i = 0; i < URXE_MAX_PD; i++) {
		uint32_t at = atomic_fetch_add(&next_number, 1) % URXE_MAX_PD;
		uint64_t bit = 1ull << at % 64;

		if (!(atomic_fetch_or(&numbers[at / 64], bit) & bit)) {
			*number = urxe_segment_slot(urxe_hca.seg) * URXE_MAX_PD + at;
			return true;
		}
	}
	return false;
}

static void put_number(uint32_t number)
{
	uint32_t at = number % URXE_MAX_PD;

	if (number / URXE_MAX_PD == urxe_segment_slot(urxe_hca.seg))
		atomic_fetch_and(&numbers[at / 64], ~(1ull << at % 64));
}

static struct urxe_pd *new_pd(struct ibv_context *context, uint32_t number)
{
	struct urxe_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return NULL;
	pd->ibv.context = context;
	pd->ibv.handle = number;
	pd->number = number;
	pd->forks = urxe_forks;
	return pd;
}

struct ibv_pd *urxe_alloc_pd(struct ibv_context *context)
{
	struct urxe_pd *pd;
	uint32_t number;

	if (!urxe_context_here(context))
		return NULL;
	if (!take_number(&number))
		return urxe_fail(ENOMEM);
	pd = new_pd(context, number);
	if (!pd) {
		put_number(number);
		return NULL;
	}
	urxe_context_file_set_pd(&to_context(context)->file, number, true);
	return &pd->ibv;
}

void urxe_pd_use(struct urxe_pd *pd, int n)
{
	struct urxe_context *ctx = to_context(pd->ibv.context);

	if (pd->of || urxe_inherited(pd->forks))
		atomic_fetch_add(&pd->users.count, n);
	else
		urxe_context_file_use(&ctx->file, pd->number, &pd->users, n);
}

/* Of one that was imported, too: it is gone for all processes that share it. */
int urxe_dealloc_pd(struct ibv_pd *ibv)
{
	struct urxe_context *ctx = to_context(ibv->context);
	struct urxe_pd *pd = to_pd(ibv);

	if (atomic_load(&pd->users.count))
		return EBUSY;
	if (pd->of) {
		urxe_pd_use(pd->of, -1);
	} else if (!urxe_inherited(pd->forks)) {
		if (urxe_context_file_used(&ctx->file, pd->number, &pd->users))
			return EBUSY;
		urxe_context_file_set_pd(&ctx->file, pd->number, false);
		/* Its allocator may still have a handle, and use that. */
		if (!pd->imported)
			put_number(pd->number);
	}
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	free(pd);
	return 0;
}

/* The PD of another context with that context's file, in whatever process (ibv_import_pd(3)). */
struct ibv_pd *urxe_import_pd(struct ibv_context *context, uint32_t handle)
{
	struct urxe_pd *pd;

	if (!urxe_context_here(context))
		return NULL;
	if (!urxe_context_file_has_pd(&to_context(context)->file, handle))
		return urxe_fail(ENOENT);
	pd = new_pd(context, handle);
	if (!pd)
		return NULL;
	pd->imported = true;
	return &pd->ibv;
}

void urxe_unimport_pd(struct ibv_pd *ibv)
{
	urxe_pd_use(to_pd(ibv), -atomic_load(&to_pd(ibv)->users.count));
	free(to_pd(ibv));
}

/* ibv_alloc_parent_domain(3): the same protection domain under a handle of its own. */
struct ibv_pd *urxe_alloc_parent_domain(struct ibv_context *context,
					struct ibv_parent_domain_init_attr *attr)
{
	struct urxe_pd *of, *pd;

	if (!attr || !attr->pd || attr->pd->context != context ||
	    (attr->td && attr->td->context != context))
		return urxe_fail(EINVAL);
	if (attr->comp_mask &
	    ~(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT))
		return urxe_fail(EOPNOTSUPP);
	if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) &&
	    (!attr->alloc || !attr->free))
		return urxe_fail(EINVAL);
	of = to_pd(attr->pd);
	if (of->of) /* a parent domain of a parent domain would not tell more */
		return urxe_fail(EINVAL);
	pd = new_pd(context, of->number);
	if (!pd)
		return NULL;
	pd->of = of;
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	urxe_pd_use(of, 1);
	if (attr->td) {
		pd->td = caa_container_of(attr->td, struct urxe_td, ibv);
		atomic_fetch_add(&pd->td->users, 1);
	}
	return &pd->ibv;
}

struct ibv_td *urxe_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct urxe_td *td;

	if (!attr || attr->comp_mask)
		return urxe_fail(EINVAL);
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

struct urxe_port *urxe_context_port(struct ibv_context *context, unsigned num)
{
	return urxe_device_port(to_context(context)->dev, num);
}

int urxe_path_from_av(struct urxe_context *ctx, const struct ibv_ah_attr *attr, uint32_t hash,
		      struct urxe_path *path)
{
	struct urxe_port *port = urxe_device_port(ctx->dev, attr->port_num);

	if (!port || (!attr->is_global && port->kind->port_flags & IBV_QPF_GRH_REQUIRED))
		return -EINVAL;
	return urxe_link_of_port(port)->resolve(path, port, attr, hash);
}

/*
 * Where a GRH is required, an address handle without one is for the port itself, if anything
 * (roce_link.c). It is given only where the PD has something that could send there.
 */
static int resolve(struct urxe_pd *pd, const struct ibv_ah_attr *attr, struct urxe_path *path)
{
	struct urxe_context *ctx = to_context(pd->ibv.context);
	struct urxe_port *port = urxe_device_port(ctx->dev, attr->port_num);
	bool to_self = port && !attr->is_global && port->kind->port_flags & IBV_QPF_GRH_REQUIRED;

	if (!to_self)
		return urxe_path_from_av(ctx, attr, attr->grh.flow_label, path);
	return atomic_load(&pd->users.count) ? urxe_link_of_port(port)->resolve(path, port, attr, 0)
					     : -EINVAL;
}

struct ibv_ah *urxe_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct urxe_ah *ah;
	int ret;

	if (urxe_missing(attr))
		return NULL;
	ah = urxe_object_new(pd->context, URXE_AHS, sizeof(*ah));
	if (!ah)
		return NULL;
	ret = resolve(to_pd(pd), attr, &ah->path);
	if (ret) {
		urxe_object_free(pd->context, URXE_AHS, ah);
		return urxe_fail(-ret);
	}
	ah->attr = *attr;
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	urxe_pd_use(to_pd(pd), 1);
	return &ah->ibv;
}

int urxe_destroy_ah(struct ibv_ah *ibv)
{
	urxe_pd_use(to_pd(ibv->pd), -1);
	urxe_object_free(ibv->context, URXE_AHS, to_ah(ibv));
	return 0;
}

int urxe_init_ah_from_wc(struct ibv_context *context, uint8_t num, struct ibv_wc *wc,
			 struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	struct urxe_port *port = urxe_context_port(context, num);

	if (urxe_missing(attr))
		return -1;
	memset(attr, 0, sizeof(*attr));
	if (!port || !wc || ((wc->wc_flags & IBV_WC_GRH) && !grh) ||
	    urxe_link_of_port(port)->answer(port, wc, grh, attr)) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

int urxe_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				 uint8_t mac[6], uint16_t *vid)
{
	struct urxe_port *port = attr ? urxe_context_port(context, attr->port_num) : NULL;
	struct urxe_path path;
	uint16_t unasked;
	int ret;

	if (!port || !mac || !urxe_link_of_port(port)->ethernet || !attr->is_global)
		return EINVAL;
	ret = urxe_path_from_av(to_context(context), attr, 0, &path);
	if (!ret)
		ret = urxe_link_of(&path)->ethernet(&path, mac, vid ? vid : &unasked);
	return -ret;
}

struct ibv_ah *urxe_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				      uint8_t port)
{
	struct ibv_ah_attr attr;

	if (urxe_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return urxe_create_ah(pd, &attr);
}
