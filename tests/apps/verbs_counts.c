// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Numbers of objects: as many as ibv_query_device() promises can be made, the next one fails with
 * ENOMEM, one that is freed makes room for another, and all can be freed.
 */
#include "verbs_test.h"

static struct ibv_device_attr_ex device;
static struct ibv_cq *cq;
static struct ibv_wq *wq;
static struct ibv_qp *qps[4096]; /* members of the groups */

#define QPS (sizeof(qps) / sizeof(qps[0]))
static uint8_t byte;

/* ---- one of each kind ---- */

static void *make_pd(unsigned i)
{
	return ibv_alloc_pd(ctx);
}

static int free_pd(void *object)
{
	return ibv_dealloc_pd(object);
}

static void *make_cq(unsigned i)
{
	return ibv_create_cq(ctx, 1, NULL, NULL, 0);
}

static int free_cq(void *object)
{
	return ibv_destroy_cq(object);
}

static void *make_srq(unsigned i)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

	return ibv_create_srq(pd, &attr);
}

static int free_srq(void *object)
{
	return ibv_destroy_srq(object);
}

static void *make_qp(unsigned i)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD,
					.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 1, .max_send_sge = 1}};

	return ibv_create_qp(pd, &attr);
}

static int free_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static void *make_mr(unsigned i)
{
	return ibv_reg_mr(pd, &byte, 1, 0);
}

static int free_mr(void *object)
{
	return ibv_dereg_mr(object);
}

static void *make_mw(unsigned i)
{
	return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static int free_mw(void *object)
{
	return ibv_dealloc_mw(object);
}

static void *make_ah(unsigned i)
{
	struct ibv_ah_attr attr = av();

	return ibv_create_ah(pd, &attr);
}

static int free_ah(void *object)
{
	return ibv_destroy_ah(object);
}

static void *make_wq(unsigned i)
{
	struct ibv_wq_init_attr attr = {
		.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq};

	return ibv_create_wq(ctx, &attr);
}

static int free_wq(void *object)
{
	return ibv_destroy_wq(object);
}

static void *make_table(unsigned i)
{
	struct ibv_rwq_ind_table_init_attr attr = {.ind_tbl = &wq};

	return ibv_create_rwq_ind_table(ctx, &attr);
}

static int free_table(void *object)
{
	return ibv_destroy_rwq_ind_table(object);
}

/* Membership in a group, by a number that is not 0. */
static union ibv_gid group(uintptr_t number)
{
	union ibv_gid to = {.raw = {[10] = 0xff, 0xff, 239, 1}};

	to.raw[14] = number >> 8;
	to.raw[15] = number;
	return to;
}

static void *make_group(unsigned i)
{
	union ibv_gid to = group(i + 1);

	errno = ibv_attach_mcast(qps[0], &to, 0);
	return errno ? NULL : (void *)(uintptr_t)(i + 1);
}

static int free_group(void *number)
{
	union ibv_gid to = group((uintptr_t)number);

	return ibv_detach_mcast(qps[0], &to, 0);
}

/* Many QPs in a few groups. */
static void *make_member(unsigned i)
{
	union ibv_gid to = group(i / QPS + 1);

	errno = ibv_attach_mcast(qps[i % QPS], &to, 0);
	return errno ? NULL : (void *)(uintptr_t)(i + 1);
}

static int free_member(void *number)
{
	uintptr_t i = (uintptr_t)number - 1;
	union ibv_gid to = group(i / QPS + 1);

	return ibv_detach_mcast(qps[i % QPS], &to, 0);
}

/* ---- all of a kind ---- */

/* there: how many there are before. */
static void fill(const char *name, unsigned most, unsigned there, void *(*make)(unsigned i),
		 int (*destroy)(void *object))
{
	void **objects = calloc(most + 1, sizeof(*objects));
	unsigned n = 0, middle;

	current_case = name;
	NEED(objects && most > there);
	errno = 0;
	while (n <= most && (objects[n] = make(n)))
		n++;
	EXPECT(errno, ENOMEM);
	EXPECT(n, most - there);
	EXPECT_TRUE(!make(n));
	middle = n / 2;
	EXPECT(destroy(objects[middle]), 0);
	NEED(objects[middle] = make(middle));
	EXPECT_TRUE(!make(n));
	for (unsigned i = 0; i < n && failures < 20; i++)
		EXPECT(destroy(objects[i]), 0);
	NEED(objects[0] = make(0));
	EXPECT(destroy(objects[0]), 0);
	free(objects);
}

static void pds(void)
{
	fill("PDs", device.orig_attr.max_pd, 1, make_pd, free_pd);
}

static void queues(void)
{
	fill("CQs", device.orig_attr.max_cq, 1, make_cq, free_cq);
	fill("SRQs", device.orig_attr.max_srq, 0, make_srq, free_srq);
	fill("QPs", device.orig_attr.max_qp, 0, make_qp, free_qp);
}

static void memory(void)
{
	fill("MRs", device.orig_attr.max_mr, 0, make_mr, free_mr);
	fill("MWs", device.orig_attr.max_mw, 0, make_mw, free_mw);
}

static void handles(void)
{
	fill("AHs", device.orig_attr.max_ah, 0, make_ah, free_ah);
}

/* Raw packets: skipped by those who may not. */
static void work_queues(void)
{
	wq = make_wq(0);
	if (!wq && errno == EPERM)
		return;
	NEED(wq);
	fill("WQs", device.max_wq_type_rq, 1, make_wq, free_wq);
	fill("RWQ tables", device.rss_caps.max_rwq_indirection_tables, 0, make_table, free_table);
	EXPECT(ibv_destroy_wq(wq), 0);
}

/* Each group is a socket: RLIMIT_NOFILE has to allow for them. */
static void groups(void)
{
	struct setup s = {.type = IBV_QPT_UD};

	for (size_t i = 0; i < QPS; i++) {
		NEED(qps[i] = make_qp(0));
		NEED(!to_init(qps[i], &s));
	}
	fill("groups", device.orig_attr.max_mcast_grp, 0, make_group, free_group);
	fill("members", device.orig_attr.max_total_mcast_qp_attach, 0, make_member, free_member);
	for (size_t i = 0; i < QPS; i++)
		EXPECT(ibv_destroy_qp(qps[i]), 0);
}

static void begin(void)
{
	NEED(!ibv_query_device_ex(ctx, NULL, &device));
	NEED(cq = ibv_create_cq(ctx, 1, NULL, NULL, 0));
}

static void end(void)
{
	EXPECT(ibv_destroy_cq(cq), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"begin", begin},   {"pds", pds},	  {"queues", queues},
		{"memory", memory}, {"handles", handles}, {"work_queues", work_queues},
		{"groups", groups}, {"end", end},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
