/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The verbs objects of an end and of its workers: made, connected, taken down. Everything is
 * created exactly as large as it will be used, and every destroy must succeed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "traffic.h"

#define ALL_RIGHTS                                                                   \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define WORDS_BYTES 4096
#define MARKER_ROOM 4 /* receives of a QP for markers on the way */

static struct ibv_context *open_device(const char *name)
{
	struct ibv_context *ctx = NULL;
	struct ibv_device **list;
	int n, i;

	list = ibv_get_device_list(&n);
	if (!list || !n)
		fail(NULL, "no RDMA device");
	for (i = 0; i < n; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i])))
			break;
	if (i == n)
		fail(NULL, "no device %s", name);
	ctx = ibv_open_device(list[i]);
	if (!ctx)
		fail(NULL, "ibv_open_device(%s): %m", ibv_get_device_name(list[i]));
	ibv_free_device_list(list);
	return ctx;
}

/* The first IPv4 one, else the first there is. */
static void choose_gid(struct end *end)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};
	int i, first = -1;

	end->gid_index = end->opt->gid_index;
	for (i = 0; end->gid_index < 0 && i < end->port.gid_tbl_len; i++) {
		if (ibv_query_gid(end->ctx, 1, i, &end->gid) || !end->gid.global.interface_id)
			continue;
		if (first < 0)
			first = i;
		if (!memcmp(end->gid.raw, v4, sizeof(v4)))
			end->gid_index = i;
	}
	if (end->gid_index < 0)
		end->gid_index = first;
	if (end->gid_index < 0 || ibv_query_gid(end->ctx, 1, end->gid_index, &end->gid))
		fail(NULL, "no GID to send from");
}

/* The client fits its configuration to the device. */
static void fit_config(struct end *end)
{
	const struct ibv_device_attr *attr = &end->attr;
	struct config *cfg = &end->cfg;
	uint32_t most = 128u << end->port.active_mtu, no = 0;

	if (!cfg->mtu || cfg->mtu > most)
		cfg->mtu = most;
	while (cfg->mtu & (cfg->mtu - 1))
		cfg->mtu &= cfg->mtu - 1;
	if (cfg->depth > (uint32_t)attr->max_qp_wr)
		cfg->depth = attr->max_qp_wr;
	if (cfg->sge_max > (uint32_t)attr->max_sge)
		cfg->sge_max = attr->max_sge;
	if (cfg->rd_atomic > (uint32_t)attr->max_qp_rd_atom)
		cfg->rd_atomic = attr->max_qp_rd_atom;
	if (cfg->rd_atomic > (uint32_t)attr->max_qp_init_rd_atom)
		cfg->rd_atomic = attr->max_qp_init_rd_atom;
	config_finish(cfg);
	if (attr->atomic_cap == IBV_ATOMIC_NONE)
		no |= 1u << OP_CAS | 1u << OP_FADD;
	if (!(attr->device_cap_flags & IBV_DEVICE_MEM_WINDOW))
		no |= 1u << OP_BIND_MW;
	if (!(attr->device_cap_flags &
	      (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
		no |= 1u << OP_SEND_INV;
	if (end->opt->cfg.mix & no)
		fail(NULL, "the device cannot do an operation of --mix");
	cfg->mix &= ~no;
}

void end_open(struct end *end)
{
	int err;

	end->ctx = open_device(end->opt->dev);
	if (ibv_query_device(end->ctx, &end->attr) || ibv_query_port(end->ctx, 1, &end->port))
		fail(NULL, "device or port query failed");
	if (end->port.state != IBV_PORT_ACTIVE)
		fail(NULL, "port 1 is not active");
	/* The kernel's rxe hands its own flag bits out, where this one has another place. */
	end->with_inv = strncmp(ibv_get_device_name(end->ctx->device), "rxe", 3)
				? IBV_WC_WITH_INV
				: IBV_WC_WITH_INV | 1 << 2;
	choose_gid(end);
	end->pd = ibv_alloc_pd(end->ctx);
	if (!end->pd)
		fail(NULL, "ibv_alloc_pd: %m");
	if (!end->side)
		fit_config(end);
	else if (end->cfg.mtu > 128u << end->port.active_mtu)
		fail(NULL, "the port's MTU is below the client's %u", end->cfg.mtu);
	err = posix_memalign((void **)&end->shared, 4096, WORDS_BYTES);
	if (err)
		fail_errno("posix_memalign", err);
	memset(end->shared, 0, WORDS_BYTES);
	end->shared_mr = ibv_reg_mr(end->pd, end->shared, WORDS_BYTES, ALL_RIGHTS);
	if (!end->shared_mr)
		fail(NULL, "ibv_reg_mr: %m");
	pthread_mutex_init(&end->bitmap_lock, NULL);
}

void end_close(struct end *end)
{
	if (ibv_dereg_mr(end->shared_mr))
		fail(NULL, "ibv_dereg_mr: %m");
	if (ibv_dealloc_pd(end->pd))
		fail(NULL, "ibv_dealloc_pd: %m");
	if (ibv_close_device(end->ctx))
		fail(NULL, "ibv_close_device: %m");
	free(end->shared);
	free(end->bitmap);
	pthread_mutex_destroy(&end->bitmap_lock);
}

uint32_t receive_capacity(const struct config *cfg)
{
	uint32_t most = cfg->max_size;

	if (lossy(cfg) && most < MARKER_LEN)
		most = MARKER_LEN;
	return most + (cfg->qp_type == IBV_QPT_UD ? GRH_LEN : 0);
}

/* Entries of a receive queue (of the shared one, with --srq). */
static unsigned count_receives(const struct worker *w)
{
	const struct config *cfg = &w->end->cfg;
	unsigned n, fits = (64u << 20) / (receive_capacity(cfg) + 1024), few = w->nqps;

	if (lossy(cfg)) {
		/* A round of UD goes to another QP than the next, so several may meet at one. */
		if (!cfg->srq)
			few = cfg->qp_type == IBV_QPT_UD ? (w->nqps < 8 ? w->nqps : 8) : 1;
		return (cfg->round + MARKER_ROOM) * few;
	}
	if (!cfg->srq)
		return cfg->depth;
	n = cfg->depth * (few < 4 ? few : 4);
	if (n > fits)
		n = fits;
	if (n > (unsigned)w->end->attr.max_srq_wr)
		n = w->end->attr.max_srq_wr;
	return n;
}

static size_t room(uint32_t cap)
{
	return cap + 1024;
}

static void make_receive_arena(struct worker *w, struct arena *a, uint64_t guard)
{
	const struct config *cfg = &w->end->cfg;
	uint32_t cap = receive_capacity(cfg);

	if (lossy(cfg) || cfg->srq)
		arena_init(a, w->end->pd, room(cap) * w->receives, w->receives + 1, guard);
	else
		arena_init(a, w->end->pd, 2 * room(cap + 64) + (256 << 10), cfg->depth + 1, guard);
}

static void *map_pages(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail(NULL, "out of memory: %zu bytes", size);
	return p;
}

/* What the peer's one-sided operations reach. */
static void make_target_memory(struct qp *qp, struct qp_info *info)
{
	struct end *end = qp->worker->end;
	const struct config *cfg = &end->cfg;
	struct target *tg = &qp->tg;
	size_t area = area_size(cfg), size = source_size(cfg);
	bool windows = cfg->mix & (1u << OP_BIND_MW | 1u << OP_SEND_INV);
	/* Some names of memory are not its addresses. */
	uint64_t iova = qp->q % 2 ? 0 : mix64(qp->q) & ~0xfffull;
	unsigned a, t;

	tg->area[0] = map_pages(2 * area);
	tg->area[1] = tg->area[0] + area;
	area_fill(tg->area[0], tg->arena.guard, 0, area);
	area_fill(tg->area[1], tg->arena.guard, 0, area);
	tg->source = map_pages(size);
	pattern_fill(tg->source, source_key(cfg, qp->q, end->side), 0, size);
	tg->words = map_pages(WORDS_BYTES);
	tg->area_mr = ibv_reg_mr(end->pd, tg->area[0], 2 * area,
				 ALL_RIGHTS | (windows ? IBV_ACCESS_MW_BIND : 0));
	if (iova)
		tg->source_mr =
			ibv_reg_mr_iova(end->pd, tg->source, size, iova, IBV_ACCESS_REMOTE_READ);
	else
		tg->source_mr = ibv_reg_mr(end->pd, tg->source, size, IBV_ACCESS_REMOTE_READ);
	tg->words_mr = ibv_reg_mr(end->pd, tg->words, WORDS_BYTES, ALL_RIGHTS);
	if (!tg->area_mr || !tg->source_mr || !tg->words_mr)
		fail(qp, "ibv_reg_mr: %m");
	for (a = 0; a < 2 && windows; a++) {
		for (t = 0; t < 2; t++) {
			if (t ? !(cfg->mix & 1u << OP_SEND_INV) : !(cfg->mix & 1u << OP_BIND_MW))
				continue;
			tg->mw[a][t] = ibv_alloc_mw(end->pd, t ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
			if (!tg->mw[a][t])
				fail(qp, "ibv_alloc_mw of type %u: %m", t + 1);
		}
		if (tg->mw[a][1])
			tg->type2_key[a] = tg->mw[a][1]->rkey;
		info->area[a] = (uintptr_t)tg->area[a];
	}
	for (a = 0; a < 2; a++)
		info->area[a] = (uintptr_t)tg->area[a];
	info->area_key = tg->area_mr->rkey;
	info->source = iova ? iova : (uintptr_t)tg->source;
	info->source_key = tg->source_mr->rkey;
	info->words = (uintptr_t)tg->words;
	info->words_key = tg->words_mr->rkey;
	info->shared = (uintptr_t)end->shared;
	info->shared_key = end->shared_mr->rkey;
}

static void make_qp(struct qp *qp)
{
	struct worker *w = qp->worker;
	const struct config *cfg = &w->end->cfg;
	struct ibv_qp_init_attr_ex init = {
		.pd = w->end->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.send_cq = w->send_cq,
		.recv_cq = w->recv_cq,
		.srq = w->srq,
		.qp_type = cfg->qp_type,
		.cap = {.max_send_wr = cfg->depth,
			.max_recv_wr = w->srq ? 0 : w->receives,
			.max_send_sge = cfg->sge_max,
			.max_recv_sge = w->srq ? 0 : cfg->sge_max,
			.max_inline_data = cfg->inline_max},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = ALL_RIGHTS & ~IBV_ACCESS_LOCAL_WRITE,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT, err;

	if (w->end->opt->api_wr) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = send_ops(cfg->qp_type);
		qp->qp = ibv_create_qp_ex(w->end->ctx, &init);
	} else {
		/* The extended structure begins with the plain one. */
		qp->qp = ibv_create_qp(w->end->pd, (struct ibv_qp_init_attr *)&init);
	}
	if (!qp->qp)
		fail(qp, "ibv_create_qp: %m");
	if (w->end->opt->api_wr)
		qp->qpx = ibv_qp_to_qp_ex(qp->qp);
	if (w->end->opt->api_wr && !qp->qpx)
		fail(qp, "ibv_qp_to_qp_ex: none");
	if (init.cap.max_send_wr < cfg->depth || init.cap.max_send_sge < cfg->sge_max ||
	    init.cap.max_inline_data < cfg->inline_max)
		fail(qp, "ibv_create_qp gave less than was asked for");
	mask |= cfg->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
	err = ibv_modify_qp(qp->qp, &attr, mask);
	if (err)
		fail(qp, "to INIT: %s", strerror(err));
}

static void qp_setup(struct qp *qp, struct qp_info *info)
{
	struct worker *w = qp->worker;
	struct end *end = w->end;
	const struct config *cfg = &end->cfg;
	uint64_t guard = mix64(qp->q * 4 + end->side + 0xa5a5);
	size_t payload = 2 * room(cfg->max_size) + (256 << 10);

	make_qp(qp);
	/* Half of the PSNs are about to wrap. */
	qp->psn = rng_next(&w->rng) & 0xffffff;
	if (qp->q % 2)
		qp->psn |= 0xffffc0;
	arena_init(&qp->in.arena, end->pd, payload, cfg->depth + 1, guard);
	qp->tg.arena.guard = guard + 1;
	if (!w->srq) {
		make_receive_arena(w, &qp->tg.arena, guard + 1);
		qp->tg.posted = calloc(w->receives, sizeof(*qp->tg.posted));
	}
	qp->in.sq = calloc(cfg->depth, sizeof(*qp->in.sq));
	if (!qp->in.sq || (!w->srq && !qp->tg.posted))
		fail(qp, "out of memory");
	make_target_memory(qp, info);
	info->qpn = qp->qp->qp_num;
	info->psn = qp->psn;
	info->lid = end->port.lid;
	memcpy(info->gid, end->gid.raw, 16);
}

static struct ibv_cq *make_cq(struct worker *w, unsigned entries)
{
	struct ibv_cq_init_attr_ex init = {.cqe = entries,
					   .cq_context = w,
					   .channel = w->channel,
					   .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *ex;

	if (!w->end->opt->cq_ex)
		return ibv_create_cq(w->end->ctx, entries, w, w->channel, 0);
	ex = ibv_create_cq_ex(w->end->ctx, &init);
	return ex ? ibv_cq_ex_to_cq(ex) : NULL;
}

static void make_queues(struct worker *w)
{
	const struct config *cfg = &w->end->cfg;
	unsigned sends = w->nqps * cfg->depth, receives = w->receives * (cfg->srq ? 1 : w->nqps);
	struct ibv_srq_init_attr init = {.attr = {.max_wr = w->receives, .max_sge = cfg->sge_max}};
	/* Some workers have one CQ for both. */
	bool one = (cfg->seed + w->index) % 2;

	if (w->end->opt->events) {
		w->channel = ibv_create_comp_channel(w->end->ctx);
		if (!w->channel)
			fail(NULL, "ibv_create_comp_channel: %m");
	}
	w->send_cq = make_cq(w, sends + (one ? receives : 0));
	w->recv_cq = one ? w->send_cq : make_cq(w, receives);
	if (!w->send_cq || !w->recv_cq)
		fail(NULL, "ibv_create_cq: %m");
	if (cfg->srq) {
		w->srq = ibv_create_srq(w->end->pd, &init);
		if (!w->srq)
			fail(NULL, "ibv_create_srq: %m");
		make_receive_arena(w, &w->srq_arena, mix64(w->index + 0x5a5a));
	}
}

static void to_rtr(struct qp *qp)
{
	struct end *end = qp->worker->end;
	const struct config *cfg = &end->cfg;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = __builtin_ctz(cfg->mtu) - 7,
		.dest_qp_num = qp->peer.qpn,
		.rq_psn = qp->peer.psn,
		.max_dest_rd_atomic = cfg->rd_atomic,
		.min_rnr_timer = cfg->rnr_timer,
		.ah_attr = {.is_global = 1,
			    .dlid = qp->peer.lid,
			    .port_num = 1,
			    .grh = {.sgid_index = end->gid_index, .hop_limit = 64}},
	};
	int mask = IBV_QP_STATE, err;

	memcpy(attr.ah_attr.grh.dgid.raw, qp->peer.gid, 16);
	if (cfg->qp_type != IBV_QPT_UD)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (cfg->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	err = ibv_modify_qp(qp->qp, &attr, mask);
	if (err)
		fail(qp, "to RTR: %s", strerror(err));
	if (cfg->qp_type == IBV_QPT_UD) {
		qp->ah = ibv_create_ah(end->pd, &attr.ah_attr);
		if (!qp->ah)
			fail(qp, "ibv_create_ah: %m");
	}
}

static void to_rts(struct qp *qp)
{
	const struct config *cfg = &qp->worker->end->cfg;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = qp->psn,
		.timeout = cfg->timeout,
		.retry_cnt = cfg->retry,
		.rnr_retry = cfg->rnr_retry,
		.max_rd_atomic = cfg->rd_atomic,
	};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN, err;

	if (cfg->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	err = ibv_modify_qp(qp->qp, &attr, mask);
	if (err)
		fail(qp, "to RTS: %s", strerror(err));
}

void worker_setup(struct worker *w)
{
	const struct config *cfg = &w->end->cfg;
	unsigned i;

	w->nqps = cfg->qps / cfg->threads + (w->index < cfg->qps % cfg->threads);
	w->rng = mix64(cfg->seed ^ (uint64_t)w->index << 32 ^ w->end->side << 20);
	w->receives = count_receives(w);
	w->qps = calloc(w->nqps, sizeof(*w->qps));
	w->infos = calloc(w->nqps, sizeof(*w->infos));
	if (!w->qps || !w->infos)
		fail(NULL, "out of memory");
	make_queues(w);
	for (i = 0; i < w->nqps; i++) {
		w->qps[i].q = w->index + i * cfg->threads;
		w->qps[i].worker = w;
		qp_setup(&w->qps[i], &w->infos[i]);
	}
}

void worker_connect(struct worker *w)
{
	unsigned i;

	/* One speaks first, so that not both wait for room in the connection. */
	if (!w->end->side)
		send_all(w->fd, w->infos, w->nqps * sizeof(*w->infos));
	for (i = 0; i < w->nqps; i++)
		recv_all(w->fd, &w->qps[i].peer, sizeof(struct qp_info));
	if (w->end->side)
		send_all(w->fd, w->infos, w->nqps * sizeof(*w->infos));
	free(w->infos);
	for (i = 0; i < w->nqps; i++) {
		to_rtr(&w->qps[i]);
		to_rts(&w->qps[i]);
	}
}

static void must(int err, const char *what)
{
	if (err)
		fail(NULL, "%s: %s", what, strerror(err < 0 ? -err : err));
}

static void qp_teardown(struct qp *qp)
{
	const struct config *cfg = &qp->worker->end->cfg;
	struct target *tg = &qp->tg;
	unsigned a, t;

	for (a = 0; a < 2; a++)
		for (t = 0; t < 2; t++)
			if (tg->mw[a][t])
				must(ibv_dealloc_mw(tg->mw[a][t]), "ibv_dealloc_mw");
	must(ibv_destroy_qp(qp->qp), "ibv_destroy_qp");
	qp->qp = NULL;
	if (qp->ah)
		must(ibv_destroy_ah(qp->ah), "ibv_destroy_ah");
	must(ibv_dereg_mr(tg->area_mr), "ibv_dereg_mr");
	must(ibv_dereg_mr(tg->source_mr), "ibv_dereg_mr");
	must(ibv_dereg_mr(tg->words_mr), "ibv_dereg_mr");
	munmap(tg->area[0], 2 * area_size(cfg));
	munmap(tg->source, source_size(cfg));
	munmap(tg->words, WORDS_BYTES);
	arena_destroy(&qp->in.arena);
	arena_destroy(&tg->arena);
	free(qp->in.sq);
	free(tg->posted);
}

void worker_teardown(struct worker *w)
{
	unsigned i;

	for (i = 0; i < w->nqps; i++)
		qp_teardown(&w->qps[i]);
	if (w->srq) {
		must(ibv_destroy_srq(w->srq), "ibv_destroy_srq");
		arena_destroy(&w->srq_arena);
	}
	if (w->recv_cq != w->send_cq)
		must(ibv_destroy_cq(w->recv_cq), "ibv_destroy_cq");
	must(ibv_destroy_cq(w->send_cq), "ibv_destroy_cq");
	if (w->channel)
		must(ibv_destroy_comp_channel(w->channel), "ibv_destroy_comp_channel");
	close(w->fd);
}
