// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The port spaces that the processes of a host share: binding conflicts as the kernel's rdma_cm has
 * them, who is found for an address, and what stays when processes die (IBTA annex A11).
 */
#include "host_test.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/mman.h>
#include <rdma/rdma_user_cm.h>

#include "host/segment_layout.h"
#include "cm/port_space.h"

#define PORT 4000

static struct urxe_segment *seg;

struct shared {
	uint32_t ready, go;
	uint32_t wins[2000];
};
static struct shared *shared;

static int setup(void **state)
{
	if (host_test_dir_make(state))
		return -1;
	memset(shared, 0, sizeof(*shared));
	return urxe_segment_join(&seg);
}

static int teardown(void **state)
{
	urxe_segment_leave(seg);
	return host_test_dir_remove(state);
}

static struct in6_addr addr_of(const char *text)
{
	struct in6_addr addr;
	char mapped[64];

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	CHECK(inet_pton(AF_INET6, mapped, &addr) == 1);
	return addr;
}

/* "6only " in front: v6only. "reuse ": reuse. */
static struct urxe_binding binding(const char *text, uint16_t ps, uint16_t port)
{
	struct urxe_binding b = {.ps = ps, .port = port};

	if (!strncmp(text, "6only ", 6)) {
		b.v6only = true;
		text += 6;
	}
	if (!strncmp(text, "reuse ", 6)) {
		b.reuse = true;
		text += 6;
	}
	b.addr = addr_of(text);
	return b;
}

static uint32_t must_bind(const char *text, uint16_t ps, uint16_t port, uint32_t id)
{
	struct urxe_binding b = binding(text, ps, port);
	uint32_t row = 0;

	b.id = id;
	CHECK(urxe_port_space_bind(seg, &b, &row) == 0);
	CHECK(row != 0);
	return row;
}

static uint32_t must_listen(const char *text, uint16_t port, uint32_t id)
{
	uint32_t row = must_bind(text, RDMA_PS_TCP, port, id);

	CHECK(urxe_port_space_listen(seg, row) == 0);
	return row;
}

/* The id that listens for an address; 0: nobody. */
static uint32_t found(const char *text, uint16_t port, uint32_t ifindex)
{
	struct in6_addr addr = addr_of(text);
	unsigned slot = 0;
	uint32_t id = 0;

	if (!urxe_port_space_find(seg, 0, RDMA_PS_TCP, port, &addr, ifindex, &slot, &id))
		return 0;
	CHECK(slot >= URXE_SLOT_FIRST && slot <= URXE_SLOT_LAST);
	return id;
}

static void test_conflicts(void **state)
{
	static const struct {
		const char *first, *second;
		int bind;   /* what the second gets when it binds */
		int listen; /* and, where both are bound, the second when it listens */
	} table[] = {
		{"127.0.0.1", "127.0.0.1", -EADDRINUSE, 0},
		{"127.0.0.1", "127.0.0.2", 0, 0},
		{"127.0.0.1", "0.0.0.0", -EADDRNOTAVAIL, 0},
		{"0.0.0.0", "127.0.0.1", -EADDRNOTAVAIL, 0},
		{"0.0.0.0", "0.0.0.0", -EADDRNOTAVAIL, 0},
		{"::1", "::1", -EADDRINUSE, 0},
		{"::1", "::2", 0, 0},
		{"::1", "::", -EADDRNOTAVAIL, 0},
		{"::", "::", -EADDRNOTAVAIL, 0},
		{"127.0.0.1", "::1", 0, 0},
		{"127.0.0.1", "::", -EADDRNOTAVAIL, 0},
		{"0.0.0.0", "::", -EADDRNOTAVAIL, 0},
		{"::", "0.0.0.0", -EADDRNOTAVAIL, 0},
		{"0.0.0.0", "::1", -EADDRNOTAVAIL, 0},
		{"0.0.0.0", "6only ::", 0, 0},
		{"6only ::", "0.0.0.0", 0, 0},
		{"6only ::", "127.0.0.1", 0, 0},
		{"6only ::", "::", -EADDRNOTAVAIL, 0},
		{"6only ::1", "::1", -EADDRINUSE, 0},
		{"reuse 127.0.0.1", "127.0.0.1", -EADDRINUSE, 0},
		{"127.0.0.1", "reuse 127.0.0.1", -EADDRINUSE, 0},
		{"reuse 127.0.0.1", "reuse 127.0.0.1", 0, -EADDRINUSE},
		{"reuse 0.0.0.0", "reuse 127.0.0.1", 0, -EADDRNOTAVAIL},
		{"reuse ::", "reuse 0.0.0.0", 0, -EADDRNOTAVAIL},
		{"reuse 127.0.0.1", "reuse 127.0.0.2", 0, 0},
		{"6only reuse ::", "reuse 0.0.0.0", 0, 0},
	};

	for (unsigned i = 0; i < ARRAY_LEN(table); i++) {
		uint32_t first = must_bind(table[i].first, RDMA_PS_TCP, PORT, 1), second;
		struct urxe_binding b = binding(table[i].second, RDMA_PS_TCP, PORT);
		struct urxe_binding udp = binding(table[i].second, RDMA_PS_UDP, PORT);
		struct urxe_binding beside = binding(table[i].second, RDMA_PS_TCP, PORT + 1);
		int ret = urxe_port_space_bind(seg, &b, &second);

		if (ret != table[i].bind)
			fail_msg("%s, then %s: %d", table[i].first, table[i].second, ret);
		if (!ret) {
			ret = urxe_port_space_listen(seg, second);
			if (ret != table[i].listen)
				fail_msg("%s, then listen on %s: %d", table[i].first,
					 table[i].second, ret);
			urxe_segment_port_release(seg, second);
		}
		/* Another port space and another port are free. */
		assert_int_equal(urxe_port_space_bind(seg, &udp, &second), 0);
		urxe_segment_port_release(seg, second);
		assert_int_equal(urxe_port_space_bind(seg, &beside, &second), 0);
		urxe_segment_port_release(seg, second);
		urxe_segment_port_release(seg, first);
		assert_int_equal(urxe_port_space_bind(seg, &b, &second), 0);
		urxe_segment_port_release(seg, second);
	}
}

static void test_link_local_scope(void **state)
{
	struct urxe_binding a = binding("fe80::1", RDMA_PS_TCP, PORT), b = a, again = a;
	uint32_t rows[2], row;

	a.scope = again.scope = 2;
	b.scope = 3;
	a.id = 20;
	b.id = 30;
	assert_int_equal(urxe_port_space_bind(seg, &a, &rows[0]), 0);
	assert_int_equal(urxe_port_space_bind(seg, &b, &rows[1]), 0);
	assert_int_equal(urxe_port_space_bind(seg, &again, &row), -EADDRINUSE);
	assert_int_equal(urxe_port_space_listen(seg, rows[0]), 0);
	assert_int_equal(urxe_port_space_listen(seg, rows[1]), 0);
	assert_int_equal(found("fe80::1", PORT, 2), 20);
	assert_int_equal(found("fe80::1", PORT, 3), 30);
	assert_int_equal(found("fe80::1", PORT, 4), 0);
}

static void test_find(void **state)
{
	uint32_t any6, any4, one4, one6;

	assert_int_equal(found("127.0.0.1", PORT, 0), 0);
	one4 = must_bind("127.0.0.1", RDMA_PS_TCP, PORT, 1);
	/* Bound is not listening. */
	assert_int_equal(found("127.0.0.1", PORT, 0), 0);
	assert_int_equal(urxe_port_space_listen(seg, one4), 0);
	assert_int_equal(found("127.0.0.1", PORT, 0), 1);
	assert_int_equal(found("127.0.0.2", PORT, 0), 0);
	assert_int_equal(found("127.0.0.1", PORT + 1, 0), 0);
	assert_int_equal(found("::1", PORT, 0), 0);
	urxe_segment_port_release(seg, one4);
	assert_int_equal(found("127.0.0.1", PORT, 0), 0);

	any6 = must_listen("::", PORT, 2);
	assert_int_equal(found("::1", PORT, 0), 2);
	assert_int_equal(found("127.0.0.1", PORT, 0), 2);
	urxe_segment_port_release(seg, any6);

	any6 = must_listen("6only ::", PORT, 3);
	assert_int_equal(found("::1", PORT, 0), 3);
	assert_int_equal(found("127.0.0.1", PORT, 0), 0);
	any4 = must_listen("0.0.0.0", PORT, 4);
	assert_int_equal(found("127.0.0.1", PORT, 0), 4);
	assert_int_equal(found("::1", PORT, 0), 3);

	/* Only a lingering listener leaves room for another beside an any-address. */
	urxe_port_space_linger(seg, any4);
	urxe_port_space_linger(seg, any6);
	assert_int_equal(found("127.0.0.1", PORT, 0), 4);
	one4 = must_listen("127.0.0.1", PORT, 5);
	one6 = must_listen("::1", PORT, 6);
	assert_int_equal(found("127.0.0.1", PORT, 0), 5);
	assert_int_equal(found("127.0.0.2", PORT, 0), 4);
	assert_int_equal(found("::1", PORT, 0), 6);
	urxe_segment_port_release(seg, one4);
	urxe_segment_port_release(seg, one6);
	assert_int_equal(found("::1", PORT, 0), 3);
	urxe_segment_port_release(seg, any4);
	urxe_segment_port_release(seg, any6);
	assert_int_equal(found("127.0.0.1", PORT, 0), 0);

	/* Rows that are not ours, or not any more, are left alone. */
	urxe_segment_port_release(seg, one6);
	urxe_segment_port_release(seg, 0);
	urxe_segment_port_release(seg, PORT_ROWS);
	urxe_port_space_linger(seg, PORT_ROWS - 1);
	assert_int_equal(urxe_port_space_listen(seg, one6), -EINVAL);
}

static void port_range(unsigned *low, unsigned *high)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "r");

	CHECK(f && fscanf(f, "%u %u", low, high) == 2);
	fclose(f);
}

static void test_ephemeral_ports_are_used_up(void **state)
{
	struct urxe_binding b = binding("127.0.0.1", RDMA_PS_TCP, 0);
	unsigned low, high, num;
	uint32_t *rows, row;
	uint8_t *seen;

	port_range(&low, &high);
	num = high - low + 1;
	rows = calloc(num, sizeof(*rows));
	seen = calloc(1, 65536);
	for (unsigned i = 0; i < num; i++) {
		b = binding("127.0.0.1", RDMA_PS_TCP, 0);
		b.peer = addr_of("127.0.0.2");
		b.peer_port = 7;
		assert_int_equal(urxe_port_space_bind(seg, &b, &rows[i]), 0);
		assert_in_range(b.port, low, high);
		assert_false(seen[b.port]);
		seen[b.port] = 1;
	}
	b = binding("127.0.0.1", RDMA_PS_TCP, 0);
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), -EADDRNOTAVAIL);
	assert_int_equal(b.port, 0);
	/* Another peer, another peer's port, another address: the same ports once more. */
	b.peer = addr_of("127.0.0.3");
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), 0);
	b = binding("127.0.0.1", RDMA_PS_TCP, 0);
	b.peer_port = 8;
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), 0);
	b = binding("127.0.0.4", RDMA_PS_TCP, 0);
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), 0);
	for (unsigned i = 0; i < num; i++)
		urxe_segment_port_release(seg, rows[i]);
	b = binding("127.0.0.1", RDMA_PS_TCP, 0);
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), 0);
	free(rows);
	free(seen);
}

static void bind_in_another_process(void *arg)
{
	CHECK(urxe_segment_join(&seg) == 0);
	must_listen("127.0.0.9", 9, 9);
}

static void test_rows_are_used_up(void **state)
{
	uint32_t *rows = calloc(PORT_ROWS, sizeof(*rows)), n = 0;
	struct urxe_binding b;
	int ret = 0;

	for (; n < PORT_ROWS; n++) {
		b = binding("127.0.0.1",
			    n >> 15 ? (n >> 16 ? RDMA_PS_UDP : RDMA_PS_IB) : RDMA_PS_TCP,
			    1 + n % 32768);
		if (n >> 16 && n & 32768)
			b.ps = RDMA_PS_IPOIB;
		ret = urxe_port_space_bind(seg, &b, &rows[n]);
		if (ret)
			break;
	}
	assert_int_equal(ret, -ENOMEM);
	assert_in_range(n, PORT_ROWS / 16 * 15 - PORT_CHUNK, PORT_ROWS / 16 * 15 + PORT_CHUNK);
	/* The others still get theirs. */
	host_test_in_child(bind_in_another_process, NULL);
	while (n--)
		urxe_segment_port_release(seg, rows[n]);
	/* What was released is taken out of its list with the next row at the latest. */
	rows[0] = must_listen("127.0.0.1", PORT, 1);
	for (unsigned i = 0; i < PORT_HEADS; i++)
		for (n = seg->map->port_heads[i]; n; n = seg->map->port_rows[n].next)
			assert_true(n == rows[0] ||
				    seg->map->ports.owner[n / PORT_CHUNK] != seg->slot);
	assert_int_equal(found("127.0.0.1", PORT, 0), 1);
	free(rows);
}

static void listen_and_wait(void *arg)
{
	CHECK(urxe_segment_join(&seg) == 0);
	for (unsigned i = 0; i < 300; i++)
		must_listen("127.0.0.1", PORT + i, 100 + i);
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	pause();
}

static void test_a_killed_process_frees_its_ports(void **state)
{
	pid_t pid = host_test_fork(listen_and_wait, NULL);
	struct urxe_binding b = binding("127.0.0.1", RDMA_PS_TCP, PORT);
	struct in6_addr addr = addr_of("127.0.0.1");
	unsigned slot;
	uint32_t row, id;

	CHECK_SOON(__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE));
	assert_true(urxe_port_space_find(seg, 0, RDMA_PS_TCP, PORT + 299, &addr, 0, &slot, &id));
	assert_int_equal(id, 399);
	assert_int_not_equal(slot, urxe_segment_slot(seg));
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), -EADDRINUSE);
	kill(pid, SIGKILL);
	host_test_wait(pid);
	urxe_segment_reap(seg);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(found("127.0.0.1", PORT + i, 0), 0);
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), 0);
}

static void share_and_wait(void *arg)
{
	CHECK(urxe_segment_join(&seg) == 0);
	must_bind("reuse 127.0.0.1", RDMA_PS_TCP, PORT, 5);
	__atomic_store_n(&shared->ready, 1, __ATOMIC_RELEASE);
	pause();
}

/* Once it has been waited for, as with the kernel's: nobody needs to have noticed that it died. */
static void test_a_dead_process_is_in_nobodys_way(void **state)
{
	struct urxe_binding b = binding("127.0.0.1", RDMA_PS_TCP, PORT);
	uint32_t row;
	pid_t pid = host_test_fork(listen_and_wait, NULL);

	CHECK_SOON(__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE));
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), -EADDRINUSE);
	kill(pid, SIGKILL);
	host_test_wait(pid);
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), 0);
	assert_int_equal(urxe_port_space_listen(seg, row), 0);
	urxe_segment_port_release(seg, row);
	/* Shared while both only bind, and not with one that listens. */
	__atomic_store_n(&shared->ready, 0, __ATOMIC_RELEASE);
	b = binding("reuse 127.0.0.1", RDMA_PS_TCP, PORT);
	assert_int_equal(urxe_port_space_bind(seg, &b, &row), 0);
	pid = host_test_fork(share_and_wait, NULL);
	CHECK_SOON(__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE));
	assert_int_equal(urxe_port_space_listen(seg, row), -EADDRINUSE);
	kill(pid, SIGKILL);
	host_test_wait(pid);
	assert_int_equal(urxe_port_space_listen(seg, row), 0);
}

/* Rows of the port as a view sees them; the state and pid of the last one. */
static unsigned holders_of(uint16_t port, enum urxe_port_state *state, pid_t *pid)
{
	struct urxe_port_holder *all = NULL;
	struct urxe_segment *view;
	unsigned n = 0;
	int num;

	CHECK(urxe_segment_view(&view) == 0);
	num = urxe_segment_port_holders(view, &all);
	CHECK(num >= 0);
	for (int i = 0; i < num; i++) {
		if (all[i].binding.port != port)
			continue;
		n++;
		*state = all[i].state;
		*pid = all[i].pid;
	}
	free(all);
	urxe_segment_leave(view);
	return n;
}

static void test_a_view_shows_who_holds_a_port(void **state)
{
	enum urxe_port_state now;
	pid_t pid, child;
	uint32_t row;

	assert_int_equal(holders_of(PORT - 1, &now, &pid), 0);
	row = must_bind("::1", RDMA_PS_UDP, PORT - 1, 1);
	assert_int_equal(holders_of(PORT - 1, &now, &pid), 1);
	assert_int_equal(now, URXE_PORT_BOUND);
	assert_int_equal(pid, getpid());
	assert_int_equal(urxe_port_space_listen(seg, row), 0);
	assert_int_equal(holders_of(PORT - 1, &now, &pid), 1);
	assert_int_equal(now, URXE_PORT_LISTENING);
	urxe_port_space_linger(seg, row);
	assert_int_equal(holders_of(PORT - 1, &now, &pid), 1);
	assert_int_equal(now, URXE_PORT_LINGERING);
	urxe_segment_port_release(seg, row);
	assert_int_equal(holders_of(PORT - 1, &now, &pid), 0);

	child = host_test_fork(listen_and_wait, NULL);
	CHECK_SOON(__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE));
	assert_int_equal(holders_of(PORT + 299, &now, &pid), 1);
	assert_int_equal(pid, child);
	kill(child, SIGKILL);
	host_test_wait(child);
	/* Without anybody having cleaned up after it. */
	assert_int_equal(holders_of(PORT + 299, &now, &pid), 0);
}

static void bind_all(void *arg)
{
	CHECK(urxe_segment_join(&seg) == 0);
	__atomic_fetch_add(&shared->ready, 1, __ATOMIC_ACQ_REL);
	CHECK_SOON(__atomic_load_n(&shared->go, __ATOMIC_ACQUIRE));
	for (unsigned i = 0; i < ARRAY_LEN(shared->wins); i++) {
		struct urxe_binding b = binding("0.0.0.0", RDMA_PS_TCP, 10000 + i);
		uint32_t row;
		int ret = urxe_port_space_bind(seg, &b, &row);

		CHECK(!ret || ret == -EADDRNOTAVAIL);
		if (!ret)
			__atomic_fetch_add(&shared->wins[i], 1, __ATOMIC_RELAXED);
	}
	__atomic_fetch_add(&shared->ready, 1, __ATOMIC_ACQ_REL);
	CHECK_SOON(__atomic_load_n(&shared->go, __ATOMIC_ACQUIRE) == 2);
}

static void test_of_many_processes_one_gets_each_port(void **state)
{
	enum { PROCESSES = 8 };
	pid_t pids[PROCESSES];

	for (unsigned i = 0; i < PROCESSES; i++)
		pids[i] = host_test_fork(bind_all, NULL);
	CHECK_SOON(__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) == PROCESSES);
	__atomic_store_n(&shared->go, 1, __ATOMIC_RELEASE);
	CHECK_SOON(__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) == 2 * PROCESSES);
	__atomic_store_n(&shared->go, 2, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(host_test_wait(pids[i]), 0);
	for (unsigned i = 0; i < ARRAY_LEN(shared->wins); i++)
		assert_int_equal(shared->wins[i], 1);
}

/* All of these ports are in the list of PORT. */
static void churn(void *arg)
{
	uint32_t rows[3];

	CHECK(urxe_segment_join(&seg) == 0);
	__atomic_fetch_add(&shared->ready, 1, __ATOMIC_ACQ_REL);
	for (;;) {
		rows[0] = must_listen("127.0.0.2", PORT + PORT_HEADS, 1);
		urxe_segment_port_release(seg, rows[0]);
		rows[1] = must_bind("reuse 127.0.0.3", RDMA_PS_TCP, PORT, 1);
		rows[2] = must_bind("127.0.0.4", RDMA_PS_TCP, 0, 1);
		urxe_segment_port_release(seg, rows[1]);
		urxe_segment_port_release(seg, rows[2]);
	}
}

/* Killed at any instruction, processes leave lists that hold; and a listener is always found. */
static void test_storm(void **state)
{
	enum { ROUNDS = 200, AT_ONCE = 1 };
	unsigned seed = 5, rounds = 0;
	uint64_t finds = 0, end;
	pid_t pid;

	must_listen("127.0.0.1", PORT, 77);
	while (rounds++ < ROUNDS) {
		pid = host_test_fork(churn, NULL);
		end = rand_r(&seed) % 3000;
		CHECK_SOON(__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) == rounds);
		for (uint64_t i = 0; i < end; i++, finds++)
			assert_int_equal(found("127.0.0.1", PORT, 0), 77);
		kill(pid, SIGKILL);
		host_test_wait(pid);
		if (rounds % 3 == 0)
			urxe_segment_reap(seg);
	}
	urxe_segment_reap(seg);
	assert_true(finds > 0);
	for (unsigned c = 0; c < PORT_CHUNKS; c++) {
		if (!seg->map->ports.chunk_backed[c])
			continue;
		for (uint32_t i = c * PORT_CHUNK; i < (c + 1) * PORT_CHUNK; i++)
			if (seg->map->port_rows[i].state != URXE_PORT_FREE)
				assert_int_equal(seg->map->ports.owner[c], seg->slot);
		if (seg->map->ports.owner[c])
			assert_int_equal(seg->map->ports.owner[c], seg->slot);
	}
	assert_int_equal(found("127.0.0.1", PORT, 0), 77);
	assert_int_equal(found("127.0.0.2", PORT, 0), 0);
}

static void child_of_a_fork(void *arg)
{
	struct urxe_binding b = binding("127.0.0.1", RDMA_PS_TCP, PORT);
	uint32_t row;

	urxe_segment_forked(seg);
	CHECK(found("127.0.0.1", PORT, 0) == 0);
	CHECK(urxe_port_space_bind(seg, &b, &row) == -ENODEV);
	urxe_segment_port_release(seg, *(uint32_t *)arg);
	CHECK(urxe_segment_join(&seg) == 0);
	CHECK(found("127.0.0.1", PORT, 0) == 1);
	CHECK(urxe_port_space_bind(seg, &b, &row) == -EADDRINUSE);
}

static void test_a_forked_child_has_no_ports(void **state)
{
	uint32_t row = must_listen("127.0.0.1", PORT, 1);

	host_test_in_child(child_of_a_fork, &row);
	urxe_segment_reap(seg);
	assert_int_equal(found("127.0.0.1", PORT, 0), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_conflicts),
		TEST(test_link_local_scope),
		TEST(test_find),
		TEST(test_ephemeral_ports_are_used_up),
		TEST(test_rows_are_used_up),
		TEST(test_a_killed_process_frees_its_ports),
		TEST(test_a_dead_process_is_in_nobodys_way),
		TEST(test_a_view_shows_who_holds_a_port),
		TEST(test_of_many_processes_one_gets_each_port),
		TEST(test_storm),
		TEST(test_a_forked_child_has_no_ports),
	};

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
