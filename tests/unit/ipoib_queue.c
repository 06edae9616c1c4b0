// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The send queue of an IPoIB interface and its address handles, with a device of the test's. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"

static struct ipoib ib;
static struct ibv_context context;
static struct ibv_cq cqs[2];
static unsigned num_cqs;
static struct ibv_qp qp;
static struct ibv_mr mr;
static struct ibv_comp_channel channel;
static unsigned num_handles;
/* Requests that are under way, in their order. */
static uint64_t under_way[2048];
static unsigned first, next;

static int device_post_send(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		assert_int_not_equal(*(uint8_t *)(wr->wr.ud.ah + 1), 0); /* it is there */
		under_way[next++ % 2048] = wr->wr_id;
	}
	return 0;
}

static int device_post_recv(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return 0;
}

static unsigned may_complete;

static int device_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int n = 0;

	for (; cq == &cqs[0] && n < room && may_complete && first != next; n++, may_complete--)
		wc[n] = (struct ibv_wc){.wr_id = under_way[first++ % 2048]};
	return n;
}

static int device_notify(struct ibv_cq *cq, int solicited)
{
	return 0;
}

struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
struct ibv_ah *__wrap_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah) + 1);

	*(uint8_t *)(ah + 1) = 1;
	num_handles++;
	return ah;
}

int __wrap_ibv_destroy_ah(struct ibv_ah *ah);
int __wrap_ibv_destroy_ah(struct ibv_ah *ah)
{
	num_handles--;
	free(ah);
	return 0;
}

struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *of, int cqe, void *arg,
				    struct ibv_comp_channel *by, int vector);
struct ibv_cq *__wrap_ibv_create_cq(struct ibv_context *of, int cqe, void *arg,
				    struct ibv_comp_channel *by, int vector)
{
	cqs[num_cqs].context = of;
	return &cqs[num_cqs++];
}

struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *__wrap_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	qp.context = &context;
	return &qp;
}

struct ibv_comp_channel *__wrap_ibv_create_comp_channel(struct ibv_context *of);
struct ibv_comp_channel *__wrap_ibv_create_comp_channel(struct ibv_context *of)
{
	channel.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return &channel;
}

int __wrap_ibv_destroy_comp_channel(struct ibv_comp_channel *of);
int __wrap_ibv_destroy_comp_channel(struct ibv_comp_channel *of)
{
	return close(of->fd);
}

int __wrap_ibv_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask);
int __wrap_ibv_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	return 0;
}

int __wrap_ibv_destroy_qp(struct ibv_qp *of);
int __wrap_ibv_destroy_qp(struct ibv_qp *of)
{
	return 0;
}

int __wrap_ibv_destroy_cq(struct ibv_cq *of);
int __wrap_ibv_destroy_cq(struct ibv_cq *of)
{
	return 0;
}

struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *at, size_t len, int access);
struct ibv_mr *__wrap_ibv_reg_mr(struct ibv_pd *pd, void *at, size_t len, int access)
{
	return &mr;
}

struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t len, uint64_t iova,
				       unsigned access);
struct ibv_mr *__wrap_ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t len, uint64_t iova,
				       unsigned access)
{
	return &mr;
}

int __wrap_ibv_dereg_mr(struct ibv_mr *of);
int __wrap_ibv_dereg_mr(struct ibv_mr *of)
{
	return 0;
}

int __wrap_event_add(struct event *event, const struct timeval *delay);
int __wrap_event_add(struct event *event, const struct timeval *delay)
{
	return 0;
}

void tun_stop(struct ipoib *of, bool stop)
{
}

void receive(struct ipoib *of, uint8_t *bytes, size_t len, uint16_t slid)
{
}

void receive_end(struct ipoib *of)
{
}

void port_restart(struct ipoib *of)
{
	fail();
}

static int set_up(void **state)
{
	log_level = LOG_EMERG;
	memset(&ib, 0, sizeof(ib));
	num_cqs = num_handles = first = next = 0;
	may_complete = 0;
	context.ops.post_send = device_post_send;
	context.ops.post_recv = device_post_recv;
	context.ops.poll_cq = device_poll_cq;
	context.ops.req_notify_cq = device_notify;
	ib.context = &context;
	ib.mtu = IPOIB_MTU;
	ib.loop.base = event_base_new();
	return queue_create(&ib) ?: queue_set_partition(&ib);
}

static int tear_down(void **state)
{
	queue_destroy(&ib);
	event_base_free(ib.loop.base);
	assert_int_equal(num_handles, 0);
	return 0;
}

static void send_by(const struct ipoib_way *way)
{
	struct ipoib_packet *packet = queue_packet(&ib);

	assert_non_null(packet);
	packet->len = IPOIB_HEADER + 20;
	queue_send(&ib, packet, way, 1);
	queue_flush(&ib);
}

/* Packets are under way all the time. */
static void handles_are_destroyed_when_what_was_sent_by_them_is_completed(void **state)
{
	struct ibv_ah_attr attr = {.dlid = 1};
	struct ipoib_way way = {};

	for (unsigned i = 0; i < 5000; i++) {
		assert_int_equal(queue_set_way(&ib, &way, &attr), 0);
		send_by(&way);
		send_by(&way);
		may_complete = i < 50 ? 0 : 2;
		assert_in_range(num_handles, 1, 60);
	}
	may_complete = 2048;
	queue_drop_way(&ib, &way);
	assert_int_equal(num_handles, 0);
}

static void handles_that_are_dropped_at_once_are_all_destroyed(void **state)
{
	static struct ipoib_way ways[3000];
	struct ibv_ah_attr attr = {.dlid = 1};

	for (unsigned i = 0; i < 3000; i++)
		assert_int_equal(queue_set_way(&ib, &ways[i], &attr), 0);
	send_by(&ways[0]);
	for (unsigned i = 0; i < 3000; i++)
		queue_drop_way(&ib, &ways[i]);
	assert_int_equal(num_handles, 3000);
	may_complete = 1;
	queue_flush(&ib);
	assert_int_equal(num_handles, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(handles_are_destroyed_when_what_was_sent_by_them_is_completed),
		TEST(handles_that_are_dropped_at_once_are_all_destroyed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
