// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Bad input, as a table. Of each verb that takes a structure there is one that it accepts, and rows
 * that change one field of it: the verb must answer with the row's errno, and accept the good one
 * afterwards. Verbs that take plain arguments have a row for each call. verbs_errors.c has what
 * depends on what came before.
 */
#include <fcntl.h>

#include "verbs_test.h"

/* Of inline functions of verbs.h that find no table of operations. */
#pragma GCC diagnostic ignored "-Wnull-dereference"

/* Objects of ctx, and the same of another context of the same device. */
static struct objects {
	struct ibv_context *ctx;
	struct ibv_pd *pd, *parent;
	struct ibv_td *td;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq, *tags, *xrc;
	struct ibv_xrcd *xrcd;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	struct ibv_qp *qp, *raw, *target;
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table *table;
	struct ibv_counters *counters;
} own, other;

/* What a program may hold beside urxe: objects of a device that is none of its. */
static struct ibv_device alien_device;
static struct ibv_context alien_context = {.device = &alien_device};
static struct ibv_pd *alien_pd = &(struct ibv_pd){.context = &alien_context};
static struct ibv_cq *alien_cq = &(struct ibv_cq){.context = &alien_context};
static struct ibv_srq *alien_srq = &(struct ibv_srq){.context = &alien_context};
static struct ibv_xrcd *alien_xrcd = &(struct ibv_xrcd){.context = &alien_context};
static struct ibv_qp *alien_qp =
	&(struct ibv_qp){.context = &alien_context, .qp_type = IBV_QPT_RC, .state = IBV_QPS_RTS};
static struct ibv_mr *alien_mr = &(struct ibv_mr){.context = &alien_context};
static struct ibv_td *alien_td = &(struct ibv_td){.context = &alien_context};
static struct ibv_counters *alien_counters = &(struct ibv_counters){.context = &alien_context};
static struct ibv_comp_channel *alien_channel = &(struct ibv_comp_channel){&alien_context};
static struct ibv_rwq_ind_table *alien_table =
	&(struct ibv_rwq_ind_table){.context = &alien_context};

static void *nothing;
static uint8_t memory[8192] __attribute__((aligned(4096)));
static uint8_t rss_key[40];
static struct ibv_wq *wq_list[4], *null_list[4], *foreign_list[4];

/* ---- the table ---- */

struct change {
	const char *what;
	size_t at, size;
	uint64_t value;
	const void *from; /* or a pointer is there when the row is tried */
	int error;
};

/* Rows: a field of a good structure has this value, or the value of that object; then the verb
 * answers with error. */
#define FIELD(good, field) \
	.at = (const char *)&(good).field - (const char *)&(good), .size = sizeof((good).field)
#define SET(good, field, number, answer)                                                       \
	{                                                                                      \
		.what = #field " = " #number, FIELD(good, field), .value = (uint64_t)(number), \
		.error = answer                                                                \
	}
#define TO(good, field, object, answer)                                              \
	{                                                                            \
		.what = #field " = " #object, FIELD(good, field), .from = &(object), \
		.error = answer                                                      \
	}

/* Makes what attr asks for, and unmakes it: 0 or an errno. */
typedef int try_fn(void *attr);

struct verb {
	const char *name;
	try_fn *try;
	const void *good;
	size_t size;
	const struct change *changes;
	size_t n;
};

static void try_row(const struct verb *v, const struct change *c)
{
	uint64_t attr[64];
	int got;

	NEED(v->size <= sizeof(attr));
	memcpy(attr, v->good, v->size);
	memcpy((char *)attr + c->at, c->from ? c->from : &c->value, c->size);
	got = v->try(attr);
	if (got != c->error) {
		printf("%s: %s: %s is %d (%s), expected %d\n", current_case, v->name, c->what, got,
		       strerror(got), c->error);
		failures++;
	}
}

static void try_verb(const struct verb *v)
{
	const struct change none = {.what = "the good one"};

	for (size_t i = 0; i < v->n; i++)
		try_row(v, &v->changes[i]);
	try_row(v, &none);
}

#define VERB(name, good, changes)                                            \
	try_verb(&(struct verb){#name, name, &(good), sizeof(good), changes, \
				sizeof(changes) / sizeof((changes)[0])})

/* The result of a verb that gives an object, which is destroyed again. */
#define MADE(object, destroy)                          \
	({                                             \
		errno = 0;                             \
		__typeof__(object) object_ = (object); \
		int error_ = object_ ? 0 : errno;      \
		if (object_)                           \
			EXPECT(destroy(object_), 0);   \
		error_;                                \
	})

/* ---- objects ---- */

static void open_objects(struct objects *o, struct ibv_context *context)
{
	struct ibv_parent_domain_init_attr parent = {0};
	struct ibv_td_init_attr td = {0};
	struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_alloc_dm_attr dm = {.length = 4096};
	struct ibv_counters_init_attr counters = {0};

	o->ctx = context;
	NEED(o->pd = parent.pd = ibv_alloc_pd(context));
	NEED(o->td = parent.td = ibv_alloc_td(context, &td));
	NEED(o->parent = ibv_alloc_parent_domain(context, &parent));
	NEED(o->channel = ibv_create_comp_channel(context));
	NEED(o->cq = ibv_create_cq(context, 16, NULL, NULL, 0));
	NEED(o->srq = ibv_create_srq(o->pd, &srq));
	NEED(o->xrcd = ibv_open_xrcd(context, &xrcd));
	NEED(o->dm = ibv_alloc_dm(context, &dm));
	NEED(o->mr = ibv_reg_mr(o->pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE));
	NEED(o->counters = ibv_create_counters(context, &counters));
}

static void open_queues(struct objects *o)
{
	struct ibv_srq_init_attr_ex tags = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = o->pd,
		.cq = o->cq,
		.tm_cap = {.max_num_tags = 2, .max_ops = 1},
	};
	struct ibv_srq_init_attr_ex xrc = {
		.attr = {.max_wr = 4, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = o->pd,
		.cq = o->cq,
		.xrcd = o->xrcd,
	};
	struct ibv_qp_init_attr qp = {
		.send_cq = o->cq,
		.recv_cq = o->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = o->xrcd,
	};
	struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = o->pd, .cq = o->cq};
	struct ibv_rwq_ind_table_init_attr table = {.ind_tbl = &o->wq};

	NEED(o->tags = ibv_create_srq_ex(o->ctx, &tags));
	NEED(o->xrc = ibv_create_srq_ex(o->ctx, &xrc));
	NEED(o->qp = ibv_create_qp(o->pd, &qp));
	NEED(o->target = ibv_create_qp_ex(o->ctx, &target));
	qp.qp_type = IBV_QPT_RAW_PACKET;
	NEED(o->raw = ibv_create_qp(o->pd, &qp));
	NEED(o->wq = ibv_create_wq(o->ctx, &wq));
	NEED(o->table = ibv_create_rwq_ind_table(o->ctx, &table));
}

static void close_objects(struct objects *o)
{
	EXPECT(ibv_destroy_rwq_ind_table(o->table), 0);
	EXPECT(ibv_destroy_wq(o->wq), 0);
	EXPECT(ibv_destroy_qp(o->raw), 0);
	EXPECT(ibv_destroy_qp(o->target), 0);
	EXPECT(ibv_destroy_qp(o->qp), 0);
	EXPECT(ibv_destroy_srq(o->tags), 0);
	EXPECT(ibv_destroy_srq(o->xrc), 0);
	EXPECT(ibv_destroy_counters(o->counters), 0);
	EXPECT(ibv_dereg_mr(o->mr), 0);
	EXPECT(ibv_free_dm(o->dm), 0);
	EXPECT(ibv_close_xrcd(o->xrcd), 0);
	EXPECT(ibv_destroy_srq(o->srq), 0);
	EXPECT(ibv_destroy_cq(o->cq), 0);
	EXPECT(ibv_destroy_comp_channel(o->channel), 0);
	EXPECT(ibv_dealloc_pd(o->parent), 0);
	EXPECT(ibv_dealloc_td(o->td), 0);
	EXPECT(ibv_dealloc_pd(o->pd), 0);
}

static void begin(void)
{
	struct ibv_context *second = ibv_open_device(ctx->device);

	NEED(second);
	open_objects(&own, ctx);
	open_objects(&other, second);
	open_queues(&own);
	open_queues(&other);
}

static void end(void)
{
	close_objects(&own);
	close_objects(&other);
	EXPECT(ibv_close_device(other.ctx), 0);
}

/* ---- domains and memory ---- */

static int alloc_parent_domain(void *attr)
{
	return MADE(ibv_alloc_parent_domain(own.ctx, attr), ibv_dealloc_pd);
}

static int alloc_td(void *attr)
{
	return MADE(ibv_alloc_td(own.ctx, attr), ibv_dealloc_td);
}

static int open_xrcd(void *attr)
{
	return MADE(ibv_open_xrcd(own.ctx, attr), ibv_close_xrcd);
}

static int alloc_dm(void *attr)
{
	return MADE(ibv_alloc_dm(own.ctx, attr), ibv_free_dm);
}

static void domains(void)
{
	const struct ibv_parent_domain_init_attr parent = {.pd = own.pd, .td = own.td};
	const struct change parents[] = {
		TO(parent, pd, nothing, EINVAL),
		TO(parent, pd, own.parent, EINVAL),
		TO(parent, pd, other.pd, EINVAL),
		TO(parent, pd, alien_pd, EINVAL),
		TO(parent, td, other.td, EINVAL),
		TO(parent, td, alien_td, EINVAL),
		SET(parent, comp_mask, 1u << 31, EOPNOTSUPP),
		/* without an allocator */
		SET(parent, comp_mask, IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS, EINVAL),
	};
	const struct ibv_td_init_attr td = {0};
	const struct change tds[] = {SET(td, comp_mask, 1, EINVAL)};
	const struct ibv_xrcd_init_attr xrcd = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	const struct change xrcds[] = {
		SET(xrcd, comp_mask, 0, EINVAL),
		SET(xrcd, comp_mask, IBV_XRCD_INIT_ATTR_FD, EINVAL),
		SET(xrcd, comp_mask, 7, EOPNOTSUPP),
		SET(xrcd, fd, 1000000, EBADF),
		SET(xrcd, fd, INT32_MAX, EBADF),
		SET(xrcd, oflags, 0, EINVAL),
		SET(xrcd, oflags, O_CREAT | O_TRUNC, EINVAL),
	};
	const struct ibv_alloc_dm_attr dm = {.length = 64};
	const struct change dms[] = {
		SET(dm, length, 0, EINVAL),
		SET(dm, length, SIZE_MAX, ENOMEM),
		SET(dm, length, SIZE_MAX - 4095, ENOMEM),
		SET(dm, log_align_req, 63, EINVAL),
		SET(dm, log_align_req, UINT32_MAX, EINVAL),
		SET(dm, comp_mask, 1, EINVAL),
	};

	VERB(alloc_parent_domain, parent, parents);
	VERB(alloc_td, td, tds);
	VERB(open_xrcd, xrcd, xrcds);
	VERB(alloc_dm, dm, dms);
	EXPECT(ibv_dealloc_pd(own.pd), EBUSY);
	EXPECT(ibv_dealloc_td(own.td), EBUSY);
	EXPECT(ibv_close_xrcd(own.xrcd), EBUSY);
}

static void domain_arguments(void)
{
	begin();
	domains();
	end();
}

/* All PDs that there are, and one more; a number that was given back is given again. */
static void domains_past_their_number(void)
{
	struct ibv_device_attr limits;
	struct ibv_pd **pds;
	int n = 0;

	NEED(!ibv_query_device(ctx, &limits));
	NEED(pds = calloc(limits.max_pd + 1, sizeof(*pds)));
	while (n <= limits.max_pd && (pds[n] = ibv_alloc_pd(ctx)))
		n++;
	EXPECT(n, limits.max_pd - 1); /* this program has one */
	EXPECT(errno, ENOMEM);
	EXPECT(ibv_dealloc_pd(pds[--n]), 0);
	NEED(pds[n++] = ibv_alloc_pd(ctx));
	while (n)
		EXPECT(ibv_dealloc_pd(pds[--n]), 0);
	free(pds);
}

/* What ibv_reg_mr() and its kin take. */
struct region {
	struct ibv_pd *pd;
	void *addr;
	size_t length;
	uint64_t iova;
	struct ibv_dm *dm;
	unsigned access;
	int flags;
};

static int reg_mr(void *attr)
{
	struct region *r = attr;

	return MADE(ibv_reg_mr(r->pd, r->addr, r->length, r->access), ibv_dereg_mr);
}

static int reg_mr_iova(void *attr)
{
	struct region *r = attr;

	return MADE(ibv_reg_mr_iova(r->pd, r->addr, r->length, r->iova, r->access), ibv_dereg_mr);
}

static int reg_dm_mr(void *attr)
{
	struct region *r = attr;

	return MADE(ibv_reg_dm_mr(r->pd, r->dm, r->iova, r->length, r->access), ibv_dereg_mr);
}

/* What libibverbs answers, whose errors are not errnos. */
static int rereg_mr(void *attr)
{
	struct region *r = attr;
	struct ibv_mr *mr = ibv_reg_mr(own.pd, memory, 64, IBV_ACCESS_LOCAL_WRITE);
	int ret;

	NEED(mr);
	ret = ibv_rereg_mr(mr, r->flags, r->pd, r->addr, r->length, r->access);
	EXPECT(ibv_dereg_mr(mr), 0);
	return ret;
}

static int advise_mr(void *attr)
{
	struct region *r = attr;
	struct ibv_sge sge = {(uintptr_t)r->addr, r->length, r->iova};

	return ibv_advise_mr(r->pd, r->flags & 0xff, r->flags >> 8, &sge, r->access);
}

static void regions(void)
{
	const struct region plain = {own.pd, memory, 64, 0, NULL, IBV_ACCESS_LOCAL_WRITE};
	const struct change plains[] = {
		SET(plain, access, IBV_ACCESS_REMOTE_WRITE, EINVAL),
		SET(plain, access, IBV_ACCESS_REMOTE_ATOMIC, EINVAL),
		SET(plain, access, 1u << 19, EINVAL),
		SET(plain, access, UINT32_MAX, EINVAL),
		TO(plain, addr, nothing, EFAULT),
		SET(plain, addr, UINTPTR_MAX, EINVAL),
		SET(plain, length, SIZE_MAX, EINVAL),
		SET(plain, length, SIZE_MAX / 2, EFAULT),
	};
	const struct region shifted = {own.pd, memory + 1, 64, 4097, NULL, IBV_ACCESS_LOCAL_WRITE};
	const struct change shifts[] = {
		SET(shifted, iova, UINT64_MAX - 62, EINVAL),
		SET(shifted, iova, UINT64_MAX, EINVAL),
		SET(shifted, length, SIZE_MAX, EINVAL),
	};
	const struct region dm = {own.pd, NULL,	  64,
				  0,	  own.dm, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE};
	const struct change dms[] = {
		TO(dm, dm, other.dm, EINVAL),
		SET(dm, iova, 4096 - 63, EINVAL),
		SET(dm, iova, UINT64_MAX, EINVAL),
		SET(dm, length, 4097, EINVAL),
		SET(dm, length, SIZE_MAX, EINVAL),
		SET(dm, access, IBV_ACCESS_LOCAL_WRITE, EINVAL),
		SET(dm, access, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND, EINVAL),
		SET(dm, access, IBV_ACCESS_ZERO_BASED | 1u << 19, EINVAL),
		SET(dm, access, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_REMOTE_WRITE, EINVAL),
	};
	const struct region again = {own.pd, memory, 128, 0, NULL, IBV_ACCESS_LOCAL_WRITE, 7};
	const struct change agains[] = {
		SET(again, flags, 0, IBV_REREG_MR_ERR_INPUT),
		SET(again, flags, 8, IBV_REREG_MR_ERR_INPUT),
		SET(again, flags, -1, IBV_REREG_MR_ERR_INPUT),
		SET(again, flags, IBV_REREG_MR_CHANGE_PD, IBV_REREG_MR_ERR_INPUT), /* and rights */
		TO(again, pd, nothing, IBV_REREG_MR_ERR_INPUT),
		TO(again, pd, other.pd, IBV_REREG_MR_ERR_INPUT),
		TO(again, pd, alien_pd, IBV_REREG_MR_ERR_INPUT),
		TO(again, addr, nothing, IBV_REREG_MR_ERR_INPUT),
		SET(again, addr, 4096, IBV_REREG_MR_ERR_CMD),
		SET(again, length, 0, IBV_REREG_MR_ERR_INPUT),
		SET(again, length, SIZE_MAX, IBV_REREG_MR_ERR_CMD),
		SET(again, access, IBV_ACCESS_REMOTE_WRITE, IBV_REREG_MR_ERR_CMD),
		SET(again, access, 1u << 19, IBV_REREG_MR_ERR_CMD),
	};
	VERB(reg_mr, plain, plains);
	VERB(reg_mr_iova, shifted, shifts);
	VERB(reg_dm_mr, dm, dms);
	VERB(rereg_mr, again, agains);
	EXPECT_NULL(ibv_reg_dmabuf_mr(own.pd, 0, 64, 0, -1, 0), EOPNOTSUPP); /* nobody has one */
	EXPECT_NULL(ibv_alloc_mw(own.pd, 0), EINVAL);
	EXPECT_NULL(ibv_alloc_mw(own.pd, UINT32_MAX), EINVAL);
	EXPECT_NULL(ibv_import_pd(own.ctx, UINT32_MAX), ENOENT);
	EXPECT_NULL(ibv_import_dm(own.ctx, UINT32_MAX), ENOENT);
	EXPECT_TRUE(!ibv_import_mr(own.pd, UINT32_MAX));
	EXPECT_TRUE(!ibv_import_mr(own.pd, 0));
	EXPECT_TRUE(!ibv_import_mr(own.pd, other.mr->handle)); /* of another domain */
	EXPECT_TRUE(!ibv_import_device(-1));
	EXPECT_TRUE(!ibv_import_device(0));
	EXPECT(ibv_memcpy_to_dm(own.dm, 1, memory, 4), EINVAL);
	EXPECT(ibv_memcpy_to_dm(own.dm, 0, memory, 3), EINVAL);
	EXPECT(ibv_memcpy_to_dm(own.dm, 4096, memory, 4), EINVAL);
	EXPECT(ibv_memcpy_to_dm(own.dm, UINT64_MAX - 3, memory, 8), EINVAL);
	EXPECT(ibv_memcpy_from_dm(memory, own.dm, 4, SIZE_MAX - 3), EINVAL);
	EXPECT(ibv_memcpy_from_dm(memory, own.dm, 4, 4096), EINVAL);
	EXPECT(ibv_memcpy_from_dm(memory, own.dm, 4096, 0), 0);
}

/* Only of regions on demand (ibv_advise_mr(3)): the keys of others are unknown, as mlx5 has it. */
static void advice_to_regions(void)
{
	const int on_demand = IBV_ACCESS_ON_DEMAND;
	struct ibv_mr *mr =
		ibv_reg_mr(own.pd, memory, sizeof(memory), on_demand | IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *read_only = ibv_reg_mr(own.pd, memory, sizeof(memory), on_demand);
	struct ibv_mr *all = ibv_reg_mr(own.pd, NULL, SIZE_MAX, on_demand);
	struct ibv_mr *null = ibv_alloc_null_mr(own.pd);
	struct ibv_mr *device = ibv_reg_dm_mr(own.pd, own.dm, 0, 4096, IBV_ACCESS_ZERO_BASED);
	struct ibv_sge nothing_there = {0};

	NEED(mr && read_only && all && null && device);
	/* iova: the L_Key; access: how many pieces; flags: the advice, and its flags above it. */
	const struct region advice = {own.pd, memory, 64, mr->lkey, NULL, 1};
	const struct change advices[] = {
		SET(advice, flags, 99, EOPNOTSUPP),    SET(advice, flags, 1 << 16, EINVAL),
		SET(advice, access, 0, EINVAL),	       SET(advice, iova, 0, ENOENT),
		SET(advice, iova, UINT32_MAX, ENOENT), SET(advice, iova, own.mr->lkey, ENOENT),
		SET(advice, iova, null->lkey, ENOENT), SET(advice, iova, device->lkey, ENOENT),
		SET(advice, length, 8193, EFAULT),     TO(advice, addr, nothing, EFAULT),
		TO(advice, pd, other.pd, EPERM),
	};
	const struct region write_advice = {
		own.pd, memory, 64, mr->lkey, NULL, 1, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE};
	const struct change write_advices[] = {SET(write_advice, iova, read_only->lkey, EPERM)};
	/* On demand, where there is nothing: as the flag says, an answer only when it is done. */
	const struct region flushed = {
		own.pd, memory, 64, all->lkey, NULL, 1, IBV_ADVISE_MR_FLAG_FLUSH << 8};
	const struct change flushes[] = {SET(flushed, addr, 4096, EFAULT)};

	VERB(advise_mr, advice, advices);
	VERB(advise_mr, write_advice, write_advices);
	VERB(advise_mr, flushed, flushes);
	EXPECT(ibv_advise_mr(own.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &nothing_there, 1), ENOENT);
	EXPECT(ibv_dereg_mr(device), 0);
	EXPECT(ibv_dereg_mr(null), 0);
	EXPECT(ibv_dereg_mr(all), 0);
	EXPECT(ibv_dereg_mr(read_only), 0);
	EXPECT(ibv_dereg_mr(mr), 0);
}

static void memory_arguments(void)
{
	begin();
	regions();
	advice_to_regions();
	end();
}

/* ---- queues ---- */

static int create_cq_ex(void *attr)
{
	struct ibv_cq_ex *cq = (errno = 0, ibv_create_cq_ex(own.ctx, attr));

	return cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) : errno;
}

static int modify_cq(void *attr)
{
	return ibv_modify_cq(own.cq, attr);
}

static int create_srq(void *attr)
{
	return MADE(ibv_create_srq(own.pd, attr), ibv_destroy_srq);
}

static int create_srq_ex(void *attr)
{
	return MADE(ibv_create_srq_ex(own.ctx, attr), ibv_destroy_srq);
}

static int modify_srq(void *attr)
{
	return ibv_modify_srq(own.srq, attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
}

static int create_wq(void *attr)
{
	return MADE(ibv_create_wq(own.ctx, attr), ibv_destroy_wq);
}

static int modify_wq(void *attr)
{
	return ibv_modify_wq(own.wq, attr);
}

static int create_rwq_ind_table(void *attr)
{
	return MADE(ibv_create_rwq_ind_table(own.ctx, attr), ibv_destroy_rwq_ind_table);
}

static int post_srq_ops(void *attr)
{
	struct ibv_ops_wr *bad = NULL;
	int ret = ibv_post_srq_ops(own.tags, attr, &bad);

	EXPECT_TRUE(bad == (ret ? attr : NULL));
	return ret;
}

static void completion_queues(void)
{
	const struct ibv_cq_init_attr_ex cq = {
		.cqe = 4,
		.channel = own.channel,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD,
		.parent_domain = own.parent,
	};
	const struct change cqs[] = {
		SET(cq, cqe, 0, EINVAL),
		SET(cq, cqe, UINT32_MAX, EINVAL),
		TO(cq, channel, other.channel, EINVAL),
		TO(cq, channel, alien_channel, EINVAL),
		SET(cq, comp_vector, 16, EINVAL),
		SET(cq, comp_vector, UINT32_MAX, EINVAL),
		SET(cq, wc_flags, 1ull << 63, EOPNOTSUPP),
		SET(cq, comp_mask, 1u << 31, EOPNOTSUPP),
		SET(cq, flags, 1u << 31, EOPNOTSUPP),
		TO(cq, parent_domain, nothing, EINVAL),
		TO(cq, parent_domain, own.pd, EINVAL),
		TO(cq, parent_domain, other.parent, EINVAL),
		TO(cq, parent_domain, alien_pd, EINVAL),
	};
	const struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE,
						      .moderate = {UINT16_MAX, UINT16_MAX}};
	const struct change moderations[] = {SET(moderation, attr_mask, 2, EINVAL),
					     SET(moderation, attr_mask, -1, EINVAL)};
	struct ibv_cq_ex *ex;

	VERB(create_cq_ex, cq, cqs);
	VERB(modify_cq, moderation, moderations);
	NEED(ex = ibv_create_cq_ex(own.ctx, &(struct ibv_cq_init_attr_ex){.cqe = 1}));
	EXPECT(ibv_start_poll(ex, &(struct ibv_poll_cq_attr){.comp_mask = 1}), EINVAL);
	EXPECT(ibv_start_poll(ex, &(struct ibv_poll_cq_attr){0}), ENOENT);
	EXPECT(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
	EXPECT(ibv_poll_cq(own.cq, 0, NULL), 0);
	EXPECT(ibv_poll_cq(own.cq, INT32_MIN, NULL), 0);
	EXPECT(ibv_resize_cq(own.cq, INT32_MIN), EINVAL);
	EXPECT(ibv_resize_cq(own.cq, INT32_MAX), EINVAL);
	EXPECT(ibv_destroy_cq(own.cq), EBUSY);
}

static void shared_receive_queues(void)
{
	const struct ibv_srq_init_attr plain = {.attr = {.max_wr = 1, .max_sge = 1}};
	const struct change plains[] = {
		SET(plain, attr.max_wr, 0, EINVAL),
		SET(plain, attr.max_wr, UINT32_MAX, EINVAL),
		SET(plain, attr.max_sge, UINT32_MAX, EINVAL),
	};
	const struct ibv_srq_init_attr_ex xrc = {
		.attr = {.max_wr = 1, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = own.pd,
		.cq = own.cq,
		.xrcd = own.xrcd,
	};
	const struct change xrcs[] = {
		SET(xrc, comp_mask, 1u << 31, EOPNOTSUPP),
		SET(xrc, comp_mask, IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, EINVAL),
		SET(xrc, srq_type, 3, EOPNOTSUPP),
		SET(xrc, srq_type, UINT32_MAX, EOPNOTSUPP),
		SET(xrc, srq_type, IBV_SRQT_TM, EINVAL), /* without its bit */
		TO(xrc, pd, nothing, EINVAL),
		TO(xrc, pd, other.pd, EINVAL),
		TO(xrc, pd, alien_pd, EINVAL),
		TO(xrc, cq, nothing, EINVAL),
		TO(xrc, cq, other.cq, EINVAL),
		TO(xrc, cq, alien_cq, EINVAL),
		TO(xrc, xrcd, nothing, EINVAL),
		TO(xrc, xrcd, other.xrcd, EINVAL),
		TO(xrc, xrcd, alien_xrcd, EINVAL),
		SET(xrc, attr.max_wr, UINT32_MAX, EINVAL),
		SET(xrc, attr.max_sge, 33, EINVAL),
	};
	const struct ibv_srq_init_attr_ex tags = {
		.attr = {.max_wr = 1, .max_sge = 1},
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = own.pd,
		.cq = own.cq,
		.tm_cap = {.max_num_tags = 1, .max_ops = 1},
	};
	const struct change tag_changes[] = {
		TO(tags, cq, nothing, EINVAL),
		TO(tags, cq, other.cq, EINVAL),
		SET(tags, tm_cap.max_num_tags, 0, EINVAL),
		SET(tags, tm_cap.max_num_tags, UINT32_MAX, EINVAL),
		SET(tags, tm_cap.max_ops, 0, EINVAL),
		SET(tags, tm_cap.max_ops, UINT32_MAX, EINVAL),
	};
	struct ibv_sge sge = {(uintptr_t)memory, 64, own.mr->lkey};
	const struct ibv_ops_wr add = {.opcode = IBV_WR_TAG_ADD,
				       .tm.add = {.sg_list = &sge, .num_sge = 1, .mask = -1}};
	const struct change adds[] = {
		SET(add, opcode, 3, EINVAL),
		SET(add, opcode, UINT32_MAX, EINVAL),
		SET(add, flags, 1u << 30, EINVAL),
		SET(add, tm.add.num_sge, -1, EINVAL),
		SET(add, tm.add.num_sge, INT32_MAX, EINVAL),
		TO(add, tm.add.sg_list, nothing, EINVAL),
	};
	struct ibv_srq_attr resized = {.max_wr = 8, .srq_limit = 2};
	const struct change resizes[] = {
		SET(resized, max_wr, 0, EINVAL),
		SET(resized, max_wr, 1, EINVAL), /* less than the limit */
		SET(resized, max_wr, UINT32_MAX, EINVAL),
		SET(resized, srq_limit, 9, EINVAL),
		SET(resized, srq_limit, UINT32_MAX, EINVAL),
	};
	struct ibv_ops_wr more = add, *bad;
	struct ibv_recv_wr recv = {.num_sge = INT32_MAX}, *bad_recv;

	VERB(create_srq, plain, plains);
	VERB(modify_srq, resized, resizes);
	EXPECT(ibv_modify_srq(own.srq, &resized, 1 << 2), EINVAL);
	EXPECT(ibv_modify_srq(own.srq, &resized, -1), EINVAL);
	VERB(create_srq_ex, xrc, xrcs);
	VERB(create_srq_ex, tags, tag_changes);
	VERB(post_srq_ops, add, adds);
	EXPECT(ibv_post_srq_ops(own.tags, &more, &bad), 0);
	EXPECT(ibv_post_srq_ops(own.tags, &more, &bad), ENOMEM); /* the third of two */
	more.opcode = IBV_WR_TAG_DEL;
	more.tm.handle = UINT32_MAX;
	EXPECT(ibv_post_srq_ops(own.tags, &more, &bad), 0);
	EXPECT_WC(own.cq, 0, IBV_WC_TM_ERR);
	EXPECT(ibv_post_srq_ops(own.srq, &more, &bad), EINVAL);
	EXPECT(ibv_post_srq_recv(own.srq, &recv, &bad_recv), EINVAL);
	recv.num_sge = -1;
	EXPECT(ibv_post_srq_recv(own.srq, &recv, &bad_recv), EINVAL);
	recv.num_sge = 1; /* of no list */
	EXPECT(ibv_post_srq_recv(own.srq, &recv, &bad_recv), EINVAL);
	EXPECT(ibv_get_srq_num(own.srq, &(uint32_t){0}), EINVAL);
}

static void work_queues(void)
{
	const struct ibv_wq_init_attr wq = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = own.pd, .cq = own.cq};
	const struct change wqs[] = {
		SET(wq, wq_type, 1, EINVAL),	      SET(wq, wq_type, UINT32_MAX, EINVAL),
		SET(wq, max_wr, 0, EINVAL),	      SET(wq, max_wr, UINT32_MAX, EINVAL),
		SET(wq, max_sge, UINT32_MAX, EINVAL), TO(wq, pd, nothing, EINVAL),
		TO(wq, pd, other.pd, EINVAL),	      TO(wq, pd, alien_pd, EINVAL),
		TO(wq, cq, nothing, EINVAL),	      TO(wq, cq, other.cq, EINVAL),
		TO(wq, cq, alien_cq, EINVAL),	      SET(wq, comp_mask, 1u << 31, EOPNOTSUPP),
	};
	const struct ibv_wq_attr state = {.attr_mask = IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE};
	const struct change states[] = {
		SET(state, wq_state, IBV_WQS_UNKNOWN, EINVAL),
		SET(state, wq_state, UINT32_MAX, EINVAL),
		SET(state, curr_wq_state, IBV_WQS_ERR, EINVAL),
		SET(state, attr_mask, 1u << 31, EOPNOTSUPP),
	};
	const struct ibv_wq_attr flags = {.attr_mask = IBV_WQ_ATTR_FLAGS,
					  .flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING};
	const struct change flag_changes[] = {
		SET(flags, flags_mask, IBV_WQ_FLAGS_SCATTER_FCS, EOPNOTSUPP),
		SET(flags, flags_mask, UINT32_MAX, EOPNOTSUPP),
	};
	const struct ibv_rwq_ind_table_init_attr table = {.log_ind_tbl_size = 2,
							  .ind_tbl = wq_list};
	static struct ibv_wq **no_list, **holes = null_list, **foreign = foreign_list;
	const struct change tables[] = {
		SET(table, log_ind_tbl_size, 31, EINVAL),
		SET(table, log_ind_tbl_size, UINT32_MAX, EINVAL),
		TO(table, ind_tbl, no_list, EINVAL),
		TO(table, ind_tbl, holes, EINVAL),
		TO(table, ind_tbl, foreign, EINVAL),
		SET(table, comp_mask, 1, EOPNOTSUPP),
	};
	struct ibv_recv_wr recv = {0}, *bad;

	for (int i = 0; i < 4; i++) {
		wq_list[i] = own.wq;
		null_list[i] = i < 3 ? own.wq : NULL;
		foreign_list[i] = i < 3 ? own.wq : other.wq;
	}
	VERB(create_wq, wq, wqs);
	VERB(modify_wq, state, states);
	VERB(modify_wq, flags, flag_changes);
	VERB(create_rwq_ind_table, table, tables);
	EXPECT(ibv_post_wq_recv(own.wq, &recv, &bad), EINVAL); /* in RESET */
	EXPECT(ibv_destroy_wq(own.wq), EBUSY);
}

static void queues(void)
{
	begin();
	completion_queues();
	shared_receive_queues();
	work_queues();
	end();
}

/* ---- QPs ---- */

static int create_qp(void *attr)
{
	return MADE(ibv_create_qp(own.pd, attr), ibv_destroy_qp);
}

static int create_qp_ex(void *attr)
{
	return MADE(ibv_create_qp_ex(own.ctx, attr), ibv_destroy_qp);
}

static int open_qp(void *attr)
{
	return MADE(ibv_open_qp(own.ctx, attr), ibv_destroy_qp);
}

static void connected_qps(void)
{
	const struct ibv_qp_init_attr rc = {
		.send_cq = own.cq,
		.recv_cq = own.cq,
		.srq = own.srq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
	};
	const struct change rcs[] = {
		TO(rc, send_cq, nothing, EINVAL),
		TO(rc, send_cq, other.cq, EINVAL),
		TO(rc, send_cq, alien_cq, EINVAL),
		TO(rc, recv_cq, nothing, EINVAL),
		TO(rc, recv_cq, other.cq, EINVAL),
		TO(rc, recv_cq, alien_cq, EINVAL),
		TO(rc, srq, other.srq, EINVAL),
		TO(rc, srq, alien_srq, EINVAL),
		TO(rc, srq, own.tags, EINVAL), /* whose send queue is its own */
		TO(rc, srq, own.xrc, EINVAL),
		SET(rc, qp_type, 0, EOPNOTSUPP),
		SET(rc, qp_type, UINT32_MAX, EOPNOTSUPP),
		SET(rc, cap.max_send_wr, UINT32_MAX, EINVAL),
		SET(rc, cap.max_send_sge, UINT32_MAX, EINVAL),
		SET(rc, cap.max_inline_data, UINT32_MAX, EINVAL),
	};
	const struct ibv_qp_init_attr_ex ex = {
		.send_cq = own.cq,
		.recv_cq = own.cq,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS |
			     IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = own.pd,
	};
	const struct change exs[] = {
		SET(ex, comp_mask, 1u << 31, EOPNOTSUPP),
		SET(ex, comp_mask, IBV_QP_INIT_ATTR_CREATE_FLAGS, EINVAL),
		SET(ex, comp_mask, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
		    EOPNOTSUPP),
		SET(ex, create_flags, 1u << 31, EOPNOTSUPP),
		SET(ex, create_flags, IBV_QP_CREATE_CVLAN_STRIPPING, EOPNOTSUPP),
		SET(ex, send_ops_flags, 1ull << 63, EOPNOTSUPP),
		TO(ex, pd, nothing, EINVAL),
		TO(ex, pd, other.pd, EINVAL),
		TO(ex, pd, alien_pd, EINVAL),
		SET(ex, cap.max_recv_wr, UINT32_MAX, EINVAL),
		SET(ex, cap.max_recv_sge, UINT32_MAX, EINVAL),
	};

	VERB(create_qp, rc, rcs);
	VERB(create_qp_ex, ex, exs);
}

static void other_qps(void)
{
	const struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = own.xrcd,
	};
	const struct change targets[] = {
		SET(target, comp_mask, 0, EINVAL),
		SET(target, comp_mask, 1u << 31 | IBV_QP_INIT_ATTR_XRCD, EOPNOTSUPP),
		TO(target, xrcd, nothing, EINVAL),
		TO(target, xrcd, other.xrcd, EINVAL),
		TO(target, xrcd, alien_xrcd, EINVAL),
	};
	const struct ibv_qp_open_attr opened = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = own.target->qp_num,
		.xrcd = own.xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	const struct change openeds[] = {
		SET(opened, comp_mask, 0, EINVAL),
		SET(opened, comp_mask, UINT32_MAX, EOPNOTSUPP),
		SET(opened, qp_num, 0, EINVAL),
		SET(opened, qp_num, UINT32_MAX, EINVAL),
		TO(opened, qp_num, other.target->qp_num, EINVAL),
		TO(opened, qp_num, own.qp->qp_num, EINVAL),
		TO(opened, xrcd, nothing, EINVAL),
		TO(opened, xrcd, other.xrcd, EINVAL),
		TO(opened, xrcd, alien_xrcd, EINVAL),
		SET(opened, qp_type, IBV_QPT_RC, EINVAL),
	};
	const struct ibv_qp_init_attr_ex spread = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = own.pd,
		.rwq_ind_tbl = own.table,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				 .rx_hash_key_len = sizeof(rss_key),
				 .rx_hash_key = rss_key},
	};
	const struct change spreads[] = {
		SET(spread, comp_mask, IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH, EINVAL),
		SET(spread, qp_type, IBV_QPT_RC, EOPNOTSUPP),
		TO(spread, pd, other.pd, EINVAL),
		TO(spread, rwq_ind_tbl, nothing, EINVAL),
		TO(spread, rwq_ind_tbl, other.table, EINVAL),
		TO(spread, rwq_ind_tbl, alien_table, EINVAL),
		TO(spread, send_cq, own.cq, EINVAL),
		TO(spread, srq, own.srq, EINVAL),
		SET(spread, rx_hash_conf.rx_hash_function, 0, EINVAL),
		SET(spread, rx_hash_conf.rx_hash_key_len, 255, EINVAL),
		TO(spread, rx_hash_conf.rx_hash_key, nothing, EINVAL),
		SET(spread, rx_hash_conf.rx_hash_fields_mask, 1ull << 40, EINVAL),
	};

	VERB(create_qp_ex, target, targets);
	VERB(open_qp, opened, openeds);
	VERB(create_qp_ex, spread, spreads);
}

/* From RESET; and back. */
static int to_init_state(void *attr)
{
	int ret = ibv_modify_qp(
		own.qp, attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

	EXPECT(ibv_modify_qp(own.qp, &reset, IBV_QP_STATE), 0);
	return ret;
}

static int to_rtr_state(void *attr)
{
	struct ibv_qp_attr in = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	int ret;

	NEED(!ibv_modify_qp(own.qp, &in,
			    IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS));
	ret = ibv_modify_qp(own.qp, attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER);
	EXPECT(ibv_modify_qp(own.qp, &reset, IBV_QP_STATE), 0);
	return ret;
}

static int limit_rate(void *attr)
{
	return ibv_modify_qp_rate_limit(own.raw, attr);
}

static int resolve_l2(void *attr)
{
	uint8_t mac[6];
	uint16_t vid;

	return ibv_resolve_eth_l2_from_gid(own.ctx, attr, mac, &vid);
}

static int create_ah(void *attr)
{
	return MADE(ibv_create_ah(own.pd, attr), ibv_destroy_ah);
}

static void qp_states(void)
{
	const struct ibv_qp_attr in = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const struct change ins[] = {
		SET(in, qp_state, IBV_QPS_UNKNOWN, EINVAL),
		SET(in, qp_state, UINT32_MAX, EINVAL),
		SET(in, port_num, 0, EINVAL),
		SET(in, port_num, 255, EINVAL),
		SET(in, pkey_index, UINT16_MAX, EINVAL),
	};
	const struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
					.path_mtu = IBV_MTU_1024,
					.dest_qp_num = 1,
					.ah_attr = av()};
	const struct change rtrs[] = {
		SET(rtr, path_mtu, 0, EINVAL),
		SET(rtr, path_mtu, UINT32_MAX, EINVAL),
		SET(rtr, dest_qp_num, UINT32_MAX, EINVAL),
		SET(rtr, max_dest_rd_atomic, 255, EINVAL),
		SET(rtr, min_rnr_timer, 255, EINVAL),
		SET(rtr, ah_attr.port_num, 0, EINVAL),
		SET(rtr, ah_attr.port_num, 255, EINVAL),
		SET(rtr, ah_attr.is_global, 0, EINVAL),
		SET(rtr, ah_attr.grh.sgid_index, 255, EINVAL),
	};
	const union ibv_gid none = {{0}};
	const struct ibv_ah_attr address = av();
	const struct change addresses[] = {
		SET(address, port_num, 0, EINVAL),
		SET(address, port_num, 255, EINVAL),
		SET(address, grh.sgid_index, 255, EINVAL),
		TO(address, grh.dgid, none, EINVAL),
	};
	const struct change resolves[] = {
		SET(address, port_num, 0, EINVAL),   SET(address, port_num, 255, EINVAL),
		SET(address, is_global, 0, EINVAL),  SET(address, grh.sgid_index, 255, EINVAL),
		TO(address, grh.dgid, none, EINVAL),
	};
	struct ibv_ah_attr made;
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000};
	const struct change rates[] = {
		SET(rate, rate_limit, UINT32_MAX, EINVAL),
		SET(rate, comp_mask, 1, EINVAL),
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_wc wc = {0};
	struct ibv_grh grh = {0};

	VERB(to_init_state, in, ins);
	VERB(to_rtr_state, rtr, rtrs);
	VERB(create_ah, address, addresses);
	EXPECT(ibv_modify_qp(own.qp, &attr, 0), 0); /* changes nothing */
	/* Bits that are no attributes, as the kernel answers; attributes of another transition. */
	EXPECT(ibv_modify_qp(own.qp, &attr, -1), EOPNOTSUPP);
	EXPECT(ibv_modify_qp(own.qp, &attr, 1 << 21), EOPNOTSUPP);
	EXPECT(ibv_modify_qp(own.qp, &attr, 1 << 26), EOPNOTSUPP);
	EXPECT(ibv_modify_qp(own.target, &attr, 1 << 26), EOPNOTSUPP);
	EXPECT(ibv_modify_qp(own.qp, &attr, IBV_QP_CAP), EINVAL);
	EXPECT(ibv_modify_qp_rate_limit(own.qp, &rate), EINVAL); /* in RESET */
	EXPECT(ibv_modify_qp(own.raw, &attr, IBV_QP_STATE | IBV_QP_PORT), 0);
	attr.qp_state = IBV_QPS_RTR;
	EXPECT(ibv_modify_qp(own.raw, &attr, IBV_QP_STATE), 0);
	VERB(limit_rate, rate, rates);
	EXPECT_NULL(ibv_create_ah_from_wc(own.pd, &wc, &grh, 1), EINVAL); /* without a GRH */
	wc.wc_flags = IBV_WC_GRH;
	EXPECT_NULL(ibv_create_ah_from_wc(own.pd, &wc, &grh, 1), EINVAL); /* of nobody */
	EXPECT_NULL(ibv_create_ah_from_wc(own.pd, &wc, &grh, 200), EINVAL);
	EXPECT(ibv_init_ah_from_wc(own.ctx, 0, &wc, &grh, &made), -1);
	EXPECT(ibv_init_ah_from_wc(own.ctx, 255, &wc, &grh, &made), -1);
	EXPECT(ibv_init_ah_from_wc(own.ctx, 1, &wc, &grh, &made), -1);
	VERB(resolve_l2, address, resolves);
	EXPECT(ibv_attach_mcast(own.qp, &none, 0), EINVAL);
	EXPECT(ibv_detach_mcast(own.qp, &none, 0), EINVAL);
	EXPECT(ibv_set_ece(own.qp, &(struct ibv_ece){.vendor_id = 1}), EOPNOTSUPP);
	EXPECT(ibv_set_ece(own.qp, &(struct ibv_ece){.comp_mask = 1}), EINVAL);
}

static void qps(void)
{
	begin();
	connected_qps();
	other_qps();
	qp_states();
	end();
}

/* ---- work requests ---- */

static int post_one(void *attr)
{
	struct ibv_send_wr *bad = NULL;
	int ret = ibv_post_send(own.qp, attr, &bad);

	EXPECT_TRUE(bad == (ret ? attr : NULL));
	if (!ret)
		EXPECT_WC(own.cq, 0, IBV_WC_SUCCESS);
	return ret;
}

static void work_requests(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_sge sges[2] = {{(uintptr_t)memory, 8, own.mr->lkey},
				  {(uintptr_t)memory, UINT32_MAX, own.mr->lkey}};
	const struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED,
					  .sg_list = sges,
					  .wr.rdma = {(uintptr_t)memory, own.mr->rkey}};
	const struct change writes[] = {
		SET(write, opcode, 31, EINVAL),		SET(write, opcode, 32, EINVAL),
		SET(write, opcode, UINT32_MAX, EINVAL), SET(write, num_sge, -1, EINVAL),
		SET(write, num_sge, 2, EINVAL),		SET(write, num_sge, INT32_MAX, EINVAL),
		SET(write, num_sge, INT32_MIN, EINVAL),
	};
	struct ibv_send_wr inlined = {
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .num_sge = 1};
	struct ibv_send_wr atomic = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .num_sge = 1};
	struct ibv_mw *mw = ibv_alloc_mw(own.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr bind = {.opcode = IBV_WR_BIND_MW};
	struct ibv_send_wr window = {.opcode = IBV_WR_BIND_MW,
				     .bind_mw = {.mw = mw,
						 .rkey = mw ? ibv_inc_rkey(mw->rkey) : 0,
						 .bind_info = {own.mr, (uintptr_t)memory, 64}}};
	struct ibv_recv_wr recv = {.num_sge = INT32_MAX}, *bad;

	NEED(!to_init(own.qp, &s) && !to_rtr(own.qp, own.qp->qp_num, &s) && !to_rts(own.qp, &s));
	VERB(post_one, write, writes);
	EXPECT(post(own.qp, &bind), EINVAL); /* no window */
	window.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_HUGETLB;
	EXPECT(post(own.qp, &window), EINVAL);
	window.bind_mw.bind_info.mw_access_flags = 1u << 19;
	EXPECT(post(own.qp, &window), EINVAL);
	EXPECT(ibv_dealloc_mw(mw), 0);
	EXPECT(ibv_post_recv(own.qp, &recv, &bad), EINVAL);
	recv.num_sge = INT32_MIN;
	EXPECT(ibv_post_recv(own.qp, &recv, &bad), EINVAL);
	recv.num_sge = 1; /* of no list */
	EXPECT(ibv_post_recv(own.qp, &recv, &bad), EINVAL);
	EXPECT(post(own.qp, &(struct ibv_send_wr){.opcode = IBV_WR_SEND, .num_sge = 1}), EINVAL);
	EXPECT(post(own.qp, &inlined), EINVAL);
	EXPECT(post(own.qp, &atomic), EINVAL);
	EXPECT(ibv_post_send(own.target, &bind, &(struct ibv_send_wr *){NULL}), EINVAL);
	EXPECT_TRUE(ibv_post_recv(own.target, &(struct ibv_recv_wr){0}, &bad));
}

/* What lies behind a domain of another device may look like one of ours. */
static void foreign_addresses(void)
{
	struct {
		struct ibv_pd pd;
		uint32_t behind[64];
	} domain = {.pd.context = &alien_context};
	struct ibv_qp_init_attr init = {
		.send_cq = own.cq,
		.recv_cq = own.cq,
		.qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 1, .max_send_sge = 1},
	};
	struct ibv_ah ah[8] = {{.context = &alien_context, .pd = &domain.pd}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .wr.ud = {.ah = ah, .remote_qpn = 1}};
	struct ibv_qp *ud = ibv_create_qp(own.pd, &init);
	struct setup s = {.type = IBV_QPT_UD};

	for (int i = 0; i < 64; i++)
		domain.behind[i] = own.pd->handle;
	NEED(ud && !to_init(ud, &s) && !to_rtr(ud, 0, &s) && !to_rts(ud, &s));
	EXPECT(post(ud, &wr), EINVAL);
	wr.wr.ud.ah = NULL;
	EXPECT(post(ud, &wr), EINVAL);
	EXPECT(ibv_destroy_qp(ud), 0);
}

struct binding {
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	struct ibv_mw_bind bind;
};

static int bind_mw(void *attr)
{
	struct binding *b = attr;
	int ret = ibv_bind_mw(b->qp, b->mw, &b->bind);

	if (!ret)
		EXPECT_WC(own.cq, 0, IBV_WC_SUCCESS);
	return ret;
}

/* own.qp and other.qp can send, each to itself. */
static void windows(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_mr *mr = ibv_reg_mr(own.pd, memory, sizeof(memory), IBV_ACCESS_MW_BIND);
	struct ibv_mw *first = ibv_alloc_mw(own.pd, IBV_MW_TYPE_1);
	struct ibv_mw *second = ibv_alloc_mw(own.pd, IBV_MW_TYPE_2);
	const struct binding binding = {
		own.qp,
		first,
		{.send_flags = IBV_SEND_SIGNALED,
		 .bind_info = {mr, (uintptr_t)memory, 64, IBV_ACCESS_REMOTE_READ}},
	};
	const struct change bindings[] = {
		TO(binding, qp, alien_qp, EINVAL),
		TO(binding, qp, own.raw, EINVAL),
		TO(binding, qp, own.target, EINVAL),
		TO(binding, mw, second, EINVAL), /* of type 2 */
		TO(binding, bind.bind_info.mr, nothing, EINVAL),
		TO(binding, bind.bind_info.mr, other.mr, EPERM),
		TO(binding, bind.bind_info.mr, alien_mr, EINVAL),
		SET(binding, bind.bind_info.mw_access_flags, IBV_ACCESS_HUGETLB, EINVAL),
		SET(binding, bind.bind_info.mw_access_flags, UINT32_MAX, EINVAL),
	};
	struct ibv_mw_bind huge = binding.bind;
	struct ibv_mw alien_mw = {.context = &alien_context, .type = IBV_MW_TYPE_2};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .bind_mw.bind_info = huge.bind_info};
	uint32_t key;

	NEED(mr && first && second);
	alien_mr->lkey = mr->lkey; /* by chance they have the same numbers */
	alien_mr->pd = own.pd;
	alien_mw.handle = second->handle;
	NEED(!to_init(other.qp, &s) && !to_rtr(other.qp, other.qp->qp_num, &s) &&
	     !to_rts(other.qp, &s));
	VERB(bind_mw, binding, bindings);
	key = first->rkey;
	EXPECT(ibv_bind_mw(own.raw, first, &huge), EINVAL);
	EXPECT(first->rkey, key);			/* only a bind changes it */
	EXPECT(ibv_bind_mw(other.qp, first, &huge), 0); /* of another domain */
	EXPECT_WC(other.cq, 0, IBV_WC_MW_BIND_ERR);
	wr.bind_mw.mw = &alien_mw;
	EXPECT(post(own.qp, &wr), EINVAL);
	huge.bind_info.length = UINT64_MAX;
	EXPECT(ibv_bind_mw(own.qp, first, &huge), 0);
	EXPECT_WC(own.cq, 0, IBV_WC_MW_BIND_ERR);
	EXPECT(ibv_dealloc_mw(first), 0);
	EXPECT(ibv_dealloc_mw(second), 0);
	EXPECT(ibv_dereg_mr(mr), 0);
}

/* Keys of what was destroyed lead nowhere, and its numbers open nothing. */
static void destroyed(void)
{
	struct ibv_mr *mr = ibv_reg_mr(own.pd, memory, 64, 0);
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(own.ctx, &dm_attr);
	struct ibv_pd *gone = ibv_alloc_pd(own.ctx);
	uint32_t key, dm_handle, pd_handle;
	struct ibv_sge sge = {(uintptr_t)memory, 8};

	NEED(mr && dm && gone);
	key = mr->lkey;
	dm_handle = dm->handle;
	pd_handle = gone->handle;
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_free_dm(dm), 0);
	EXPECT(ibv_dealloc_pd(gone), 0);
	sge.lkey = key;
	EXPECT(ibv_advise_mr(own.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
	EXPECT_TRUE(!ibv_import_mr(own.pd, key));
	EXPECT_NULL(ibv_import_dm(own.ctx, dm_handle), ENOENT);
	EXPECT_NULL(ibv_import_pd(own.ctx, pd_handle), ENOENT);
}

static void posting(void)
{
	begin();
	work_requests();
	foreign_addresses();
	windows();
	destroyed();
	end();
}

/* ---- flows and counters ---- */

struct rule {
	struct ibv_flow_attr attr;
	struct ibv_flow_spec_eth eth;
	struct ibv_flow_spec_counter_action count;
} __attribute__((packed, aligned(8)));

static int create_flow(void *attr)
{
	return MADE(ibv_create_flow(own.raw, attr), ibv_destroy_flow);
}

static int create_counters(void *attr)
{
	return MADE(ibv_create_counters(own.ctx, attr), ibv_destroy_counters);
}

static int attach_counters(void *attr)
{
	return ibv_attach_counters_point_flow(own.counters, attr, NULL);
}

static void flows(void)
{
	const struct rule rule = {
		.attr = {.type = IBV_FLOW_ATTR_NORMAL,
			 .size = sizeof(rule),
			 .num_of_specs = 2,
			 .port = 1},
		.eth = {.type = IBV_FLOW_SPEC_ETH, .size = sizeof(rule.eth)},
		.count = {.type = IBV_FLOW_SPEC_ACTION_COUNT,
			  .size = sizeof(rule.count),
			  .counters = own.counters},
	};
	const struct change rules[] = {
		SET(rule, attr.comp_mask, 1, EINVAL),
		SET(rule, attr.type, 4, EINVAL),
		SET(rule, attr.type, UINT32_MAX, EINVAL),
		SET(rule, attr.type, IBV_FLOW_ATTR_SNIFFER, EINVAL), /* with specs */
		SET(rule, attr.priority, UINT16_MAX, EINVAL),
		SET(rule, attr.num_of_specs, 255, EINVAL),
		SET(rule, attr.port, 0, EINVAL),
		SET(rule, attr.port, 2, EINVAL),
		SET(rule, attr.flags, 1u << 31, EINVAL),
		SET(rule, attr.flags, IBV_FLOW_ATTR_FLAGS_EGRESS, EOPNOTSUPP),
		SET(rule, eth.type, 0xfff, EOPNOTSUPP),
		SET(rule, eth.size, 0, EINVAL),
		SET(rule, eth.size, 7, EINVAL),
		SET(rule, eth.size, sizeof(rule.eth) - 2, EINVAL),
		SET(rule, eth.size, UINT16_MAX, EINVAL),
		SET(rule, count.size, sizeof(rule.count) - 1, EINVAL),
		TO(rule, count.counters, nothing, EINVAL),
		TO(rule, count.counters, other.counters, EINVAL),
		TO(rule, count.counters, alien_counters, EINVAL),
	};
	const struct rule all = {.attr = {.type = IBV_FLOW_ATTR_ALL_DEFAULT, .port = 1}};
	const struct change alls[] = {
		/* only rules with specs let others see the frame, too */
		SET(all, attr.flags, IBV_FLOW_ATTR_FLAGS_DONT_TRAP, EINVAL),
		SET(all, attr.num_of_specs, 1, EINVAL),
	};
	const struct ibv_counters_init_attr counters = {0};
	const struct change counter_changes[] = {SET(counters, comp_mask, 1, EOPNOTSUPP)};
	const struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_BYTES};
	const struct change attaches[] = {
		SET(attach, counter_desc, 2, EOPNOTSUPP),
		SET(attach, counter_desc, UINT32_MAX, EOPNOTSUPP),
		SET(attach, index, UINT32_MAX, EINVAL),
		SET(attach, comp_mask, 1, EOPNOTSUPP),
		/* place 0 is that of bytes by then */
		SET(attach, counter_desc, IBV_COUNTER_PACKETS, EBUSY),
	};
	struct ibv_flow *flow;
	uint64_t value;

	VERB(create_counters, counters, counter_changes);
	EXPECT(attach_counters(
		       &(struct ibv_counter_attach_attr){.counter_desc = IBV_COUNTER_BYTES}),
	       0);
	VERB(attach_counters, attach, attaches);
	VERB(create_flow, rule, rules);
	VERB(create_flow, all, alls);
	EXPECT_NULL(ibv_create_flow(own.qp, (void *)&rule), EINVAL); /* not for raw packets */
	EXPECT_NULL(ibv_create_flow_action_esp(own.ctx, &(struct ibv_flow_action_esp_attr){0}),
		    EOPNOTSUPP);
	EXPECT(ibv_read_counters(own.counters, &value, 0, 0), EINVAL);
	EXPECT(ibv_read_counters(own.counters, &value, UINT32_MAX, 0), EINVAL);
	EXPECT(ibv_read_counters(own.counters, &value, 1, 1u << 31), EOPNOTSUPP);
	NEED(flow = ibv_create_flow(own.raw, (void *)&rule));
	/* A flow that counts by them was made: no more places. */
	EXPECT(attach_counters(&(struct ibv_counter_attach_attr){.index = 1}), EBUSY);
	EXPECT(ibv_destroy_counters(own.counters), EBUSY);
	EXPECT(ibv_destroy_qp(own.raw), EBUSY);
	EXPECT(ibv_attach_counters_point_flow(other.counters, &(struct ibv_counter_attach_attr){0},
					      flow),
	       EINVAL);
	EXPECT(ibv_destroy_flow(flow), 0);
}

static void steering(void)
{
	begin();
	flows();
	end();
}

/* ---- queries ---- */

static int query_rt_values(void *attr)
{
	return ibv_query_rt_values_ex(own.ctx, attr);
}

static int query_device(void *attr)
{
	struct ibv_device_attr_ex out;

	return ibv_query_device_ex(own.ctx, attr, &out);
}

static void queries(void)
{
	const struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	const struct change value_changes[] = {SET(values, comp_mask, 2, EINVAL),
					       SET(values, comp_mask, UINT32_MAX, EINVAL)};
	const struct ibv_query_device_ex_input input = {0};
	const struct change inputs[] = {SET(input, comp_mask, 1, EINVAL)};
	struct ibv_gid_entry entries[2];
	struct ibv_port_attr port;
	union ibv_gid out;
	__be16 pkey;

	VERB(query_rt_values, values, value_changes);
	VERB(query_device, input, inputs);
	EXPECT(ibv_query_port(own.ctx, 0, &port), EINVAL);
	EXPECT(ibv_query_port(own.ctx, 255, &port), EINVAL);
	EXPECT(ibv_query_gid(own.ctx, 255, 0, &out), -1);
	EXPECT(ibv_query_gid(own.ctx, 1, INT32_MIN, &out), -1);
	EXPECT(ibv_query_gid(own.ctx, 1, INT32_MAX, &out), -1);
	EXPECT(ibv_query_gid_ex(own.ctx, UINT32_MAX, 0, entries, 0), EINVAL);
	EXPECT(ibv_query_gid_ex(own.ctx, 1, UINT32_MAX, entries, 0), EINVAL);
	EXPECT(ibv_query_gid_ex(own.ctx, 1, 0, entries, UINT32_MAX), EINVAL);
	EXPECT(ibv_query_gid_table(own.ctx, entries, 0, 0), -EINVAL); /* there are some */
	EXPECT(ibv_query_gid_table(own.ctx, entries, 2, 1), -EINVAL);
	EXPECT(ibv_query_pkey(own.ctx, 1, INT32_MIN, &pkey), -1);
	EXPECT(ibv_query_pkey(own.ctx, 1, INT32_MAX, &pkey), -1);
	EXPECT(ibv_query_pkey(own.ctx, 0, 0, &pkey), -1);
	EXPECT(ibv_get_pkey_index(own.ctx, 1, 0), -1);
	EXPECT(ibv_get_pkey_index(own.ctx, 255, 0xffff), -1);
}

static void query_arguments(void)
{
	begin();
	queries();
	end();
}

/* ---- nothing, where a verb wants attributes ---- */

static void without_attributes(void)
{
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {0};
	struct ibv_ah_attr ah;
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD};
	struct ibv_qp *ud;

	begin();
	init.send_cq = init.recv_cq = own.cq;
	NEED(ud = ibv_create_qp(own.pd, &init));
	EXPECT_NULL(ibv_alloc_parent_domain(own.ctx, NULL), EINVAL);
	EXPECT_NULL(ibv_alloc_td(own.ctx, NULL), EINVAL);
	EXPECT_NULL(ibv_open_xrcd(own.ctx, NULL), EINVAL);
	EXPECT_NULL(ibv_alloc_dm(own.ctx, NULL), EINVAL);
	EXPECT_NULL(ibv_reg_dm_mr(own.pd, NULL, 0, 64, IBV_ACCESS_ZERO_BASED), EINVAL);
	EXPECT(ibv_advise_mr(own.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1), EINVAL);
	EXPECT_NULL(ibv_create_cq_ex(own.ctx, NULL), EINVAL);
	EXPECT(ibv_modify_cq(own.cq, NULL), EINVAL);
	EXPECT_NULL(ibv_create_srq(own.pd, NULL), EINVAL);
	EXPECT(ibv_modify_srq(own.srq, NULL, IBV_SRQ_MAX_WR), EINVAL);
	EXPECT(ibv_modify_srq(own.srq, NULL, IBV_SRQ_LIMIT), EINVAL);
	EXPECT_NULL(ibv_create_wq(own.ctx, NULL), EINVAL);
	EXPECT(ibv_modify_wq(own.wq, NULL), EINVAL);
	EXPECT_NULL(ibv_create_rwq_ind_table(own.ctx, NULL), EINVAL);
	EXPECT_NULL(ibv_create_qp(own.pd, NULL), EINVAL);
	EXPECT_NULL(ibv_open_qp(own.ctx, NULL), EINVAL);
	EXPECT(ibv_modify_qp(own.qp, NULL, IBV_QP_STATE), EINVAL);
	EXPECT(ibv_modify_qp(own.target, NULL, IBV_QP_STATE), EINVAL);
	EXPECT(ibv_modify_qp_rate_limit(own.raw, NULL), EINVAL);
	EXPECT(ibv_set_ece(own.qp, NULL), EINVAL);
	EXPECT_NULL(ibv_create_ah(own.pd, NULL), EINVAL);
	EXPECT(ibv_init_ah_from_wc(own.ctx, 1, &wc, NULL, &ah), -1);
	EXPECT(ibv_init_ah_from_wc(own.ctx, 1, NULL, &grh, &ah), -1);
	EXPECT(ibv_attach_mcast(ud, NULL, 0), EINVAL);
	EXPECT(ibv_detach_mcast(ud, NULL, 0), EINVAL);
	EXPECT(ibv_destroy_qp(ud), 0);
	EXPECT_NULL(ibv_create_flow(own.raw, NULL), EINVAL);
	EXPECT_NULL(ibv_create_counters(own.ctx, NULL), EINVAL);
	EXPECT(ibv_attach_counters_point_flow(own.counters, NULL, NULL), EINVAL);
	EXPECT(ibv_read_counters(own.counters, NULL, 1, 0), EINVAL);
	EXPECT(ibv_query_rt_values_ex(own.ctx, NULL), EINVAL);
	end();
}

/* ---- nowhere, where a verb wants to put its answer ---- */

/* Inline functions of verbs.h clear what it points to on their way without a provider. */
static void *volatile nowhere;

static void without_outputs(void)
{
	struct ibv_ah_attr to_self = {.is_global = 1, .port_num = 1};
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_grh grh = {0};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_cq *cq;

	begin();
	NEED(!ibv_query_gid(own.ctx, 1, 0, &to_self.grh.dgid));
	EXPECT(ibv_query_device(own.ctx, NULL), EINVAL);
	EXPECT(ibv_query_device_ex(own.ctx, NULL, nowhere), EINVAL);
	EXPECT(ibv_query_port(own.ctx, 1, nowhere), EINVAL);
	EXPECT((ibv_query_port)(own.ctx, 1, nowhere), EINVAL);
	EXPECT(ibv_query_gid(own.ctx, 1, 0, NULL), -1);
	EXPECT(ibv_query_gid_ex(own.ctx, 1, 0, NULL, 0), EINVAL);
	EXPECT(ibv_query_gid_table(own.ctx, NULL, 256, 0), -EINVAL);
	EXPECT(ibv_query_pkey(own.ctx, 1, 0, NULL), -1);
	EXPECT(ibv_query_srq(own.srq, NULL), EINVAL);
	EXPECT(ibv_get_srq_num(own.xrc, NULL), EINVAL);
	EXPECT(ibv_query_qp(own.qp, NULL, IBV_QP_STATE, &init), EINVAL);
	EXPECT(ibv_query_qp(own.qp, &attr, IBV_QP_STATE, NULL), EINVAL);
	EXPECT(ibv_query_qp(own.target, NULL, IBV_QP_STATE, &init), EINVAL);
	EXPECT(ibv_init_ah_from_wc(own.ctx, 1, &wc, &grh, NULL), -1);
	EXPECT(ibv_resolve_eth_l2_from_gid(own.ctx, &to_self, NULL, NULL), EINVAL);
	EXPECT(ibv_resolve_eth_l2_from_gid(own.ctx, NULL, memory, NULL), EINVAL);
	EXPECT(ibv_get_async_event(own.ctx, NULL), -1);
	EXPECT(errno, EINVAL);
	EXPECT(ibv_get_cq_event(own.channel, NULL, &nothing), -1);
	EXPECT(errno, EINVAL);
	EXPECT(ibv_get_cq_event(own.channel, &cq, NULL), -1);
	EXPECT(errno, EINVAL);
	end();
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"domains", domain_arguments},
		{"past_their_number", domains_past_their_number},
		{"memory", memory_arguments},
		{"queues", queues},
		{"qps", qps},
		{"posting", posting},
		{"steering", steering},
		{"queries", query_arguments},
		{"without_attributes", without_attributes},
		{"without_outputs", without_outputs},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
