/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Links between neighbours: this process receives, a child sends, both with a wire of their own.
 * What arrives came by a ring when its UDP source port is 0.
 */
#include "wire_test.h"

#include <glob.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "wire/neighbour.h"
#include "wire/shm.h"

#define LONG (100u << 10)

/* What the two share, and what has arrived here. */
static struct page {
	volatile uint32_t qpn;	   /* the receiver's */
	volatile uint32_t slot;	   /* the sender's */
	volatile uint32_t seen;	   /* packets */
	volatile uint32_t offered; /* packets, when the last one refers to memory */
	uint8_t unused[4080];
	uint8_t memory[LONG]; /* to refer to; the same address in both */
} * page;

static struct arrived {
	unsigned n, by_ring, wrong;
	uint32_t span, psn, refs_len;
	int pulled;
	uint8_t payload[LONG];
	uint32_t payload_len;
	struct in6_addr sgid, dgid;
	uint8_t traffic_class;
} got;

static struct urxe_segment *seg;
static struct urxe_wire *wire;
static struct urxe_device *dev;

static void join(void)
{
	assert_int_equal(urxe_segment_join(&seg), 0);
	assert_int_equal(urxe_wire_create(seg, &wire), 0);
	dev = lo_device();
}

static void leave(void)
{
	urxe_wire_destroy(wire);
	urxe_segment_leave(seg);
}

static pid_t pulls_from; /* the sender, which is known to be alive; 0: identified by its cookie */

static void receive(const struct urxe_rx_packet *pkt, void *arg)
{
	struct urxe_packet p;

	got.n++;
	got.by_ring += !pkt->source_port;
	if (urxe_packet_parse(pkt->bytes, pkt->len, &p)) {
		got.wrong++;
		return;
	}
	got.span = pkt->span;
	got.psn = urxe_bth_psn(p.bth);
	got.sgid = pkt->path.src.gid;
	got.dgid = pkt->path.dst.gid;
	got.traffic_class = pkt->path.roce.traffic_class;
	got.refs_len = pkt->refs_len;
	if (pkt->refs) {
		struct iovec iov[2] = {{got.payload, 1000}, {got.payload + 1000, LONG - 1000}};

		iov[1].iov_len = pkt->refs_len - 1000;
		got.pulled = urxe_wire_pull(pkt->refs, 0, iov, 2, pkt->refs_len, pulls_from);
	} else if (p.payload_len <= LONG) {
		memcpy(got.payload, p.payload, p.payload_len);
	}
	got.payload_len = pkt->refs ? pkt->refs_len : p.payload_len;
}

static struct urxe_path path_to(const char *dst, uint8_t tclass)
{
	union ibv_gid from = gid_of("::ffff:127.0.0.1"), to = gid_of(dst);
	struct urxe_path path;

	assert_int_equal(path_between(&path, dev, &from, &to, tclass, 0, 0, 0), 0);
	return path;
}

static int send_one(const struct urxe_path *path, uint32_t psn, const void *data, uint32_t len,
		    bool refer)
{
	struct iovec iov = {(void *)data, len};
	struct urxe_tx_packet pkt;

	fill_packet(&pkt, page->qpn, psn, &iov, 1);
	pkt.span = len ? (len + 1023) / 1024 : 1;
	pkt.refer = refer;
	return urxe_wire_send(wire, path, &pkt, 1);
}

/* ---- what children do ---- */

static pid_t child_of(void (*fn)(void))
{
	pid_t pid;

	page->slot = 0;
	pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* The parent's wire is not ours. */
	urxe_wire_forked(wire);
	urxe_segment_forked(seg);
	join();
	page->slot = urxe_segment_slot(seg);
	fn();
	leave();
	_exit(0);
}

static void ends_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void await_seen(uint32_t n)
{
	for (int i = 0; i < 3000 && page->seen < n; i++)
		pause_ms(1);
}

static void send_three(void)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0x20);
	struct urxe_path other = path_to("::ffff:127.0.0.1", 0x40);

	assert_true(path.here);
	assert_non_null(urxe_wire_neighbour(wire, &path, page->qpn));
	assert_int_equal(send_one(&path, 1, "hello", 5, false), 1);
	await_seen(1);
	assert_int_equal(send_one(&path, 2, page->memory, 30000, false), 1);
	await_seen(2);
	assert_int_equal(send_one(&other, 3, page->memory, 8, false), 1);
	pause_ms(300);
}

/* May the rest of a long message be sent now, and is it to be referred to? */
static bool is_to_be_referred_to(const struct urxe_path *path)
{
	bool refer = true;

	if (urxe_wire_full(wire, path, page->qpn, LONG, true))
		return false;
	return urxe_wire_run(wire, path, page->qpn, &refer) == URXE_MAX_REFERRED && refer;
}

/* Copies until the ring is full, while nobody takes anything. */
static uint32_t fill_ring(const struct urxe_path *path, uint32_t psn)
{
	while (send_one(path, psn, page->memory, URXE_MAX_RUN, false) == 1)
		psn += URXE_MAX_RUN / 1024;
	return psn;
}

static void await_behind(const struct urxe_path *path)
{
	for (int i = 0; i < 1000 && !is_to_be_referred_to(path); i++)
		pause_ms(1);
	assert_true(is_to_be_referred_to(path));
}

/*
 * Offers memory when the neighbour, which waits for that, has left the ring full for a while; and
 * takes the offer back before anybody looked when the first byte says so.
 */
static void refer(void)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0);
	uint8_t *own = malloc(LONG);
	uint32_t psn;

	for (uint32_t i = 0; i < LONG; i++)
		own[i] = i * 7;
	assert_int_equal(send_one(&path, 1, "", 0, false), 1);
	await_seen(1);
	assert_false(is_to_be_referred_to(&path));
	psn = fill_ring(&path, 2);
	await_behind(&path);
	assert_int_equal(send_one(&path, psn, own, LONG, true), 1);
	if (page->memory[0])
		urxe_wire_void_refs(wire, &path, page->qpn);
	page->offered = 2 + (psn - 2) / (URXE_MAX_RUN / 1024);
	pause_ms(500);
	free(own);
}

/* Copies again as soon as there is room. */
static void copy(void)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0);
	uint32_t psn;

	assert_int_equal(send_one(&path, 1, "", 0, false), 1);
	await_seen(1);
	psn = fill_ring(&path, 2);
	await_behind(&path);
	page->offered = 1 + (psn - 2) / (URXE_MAX_RUN / 1024);
	await_seen(2);
	assert_false(is_to_be_referred_to(&path));
	assert_int_equal(send_one(&path, psn, page->memory, URXE_MAX_RUN, false), 1);
}

static void copy_past_caches(void)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0);
	uint8_t *own = malloc(LONG);
	struct iovec iov[3] = {{own, 1}, {own + 1, 4095}, {own + 4096, 3001}};
	struct urxe_tx_packet pkt;

	for (uint32_t i = 0; i < LONG; i++)
		own[i] = i * 7;
	assert_int_equal(send_one(&path, 1, "", 0, false), 1);
	await_seen(1);
	wire->shm->links[urxe_owner_of(seg, page->qpn)]->ways.way = URXE_WAY_PAST_CACHES;
	fill_packet(&pkt, page->qpn, 2, iov, 3);
	pkt.span = 7;
	assert_int_equal(urxe_wire_send(wire, &path, &pkt, 1), 1);
	await_seen(2);
	free(own);
}

#define PAYLOADS 8

static void refer_to_many(void)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0);
	uint8_t *own = calloc(1, LONG);

	assert_int_equal(send_one(&path, 1, "", 0, false), 1);
	await_seen(1);
	for (uint32_t i = 0; i < PAYLOADS; i++)
		assert_int_equal(send_one(&path, 2 + i * (LONG / 1024), own, LONG, true), 1);
	page->offered = 1 + PAYLOADS;
	await_seen(page->offered);
	free(own);
}

static void send_until_killed(void)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0);
	uint32_t psn = 0;

	for (;;)
		if (send_one(&path, psn, page->memory, psn % 3000, false) == 1)
			psn++;
}

static void send_late(void)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0);

	send_one(&path, 1, "x", 1, false);
	pause_ms(200);
	send_one(&path, 2, "y", 1, false);
	pause_ms(200);
}

/* ---- tests ---- */

static int setup(void **state)
{
	memset(&got, 0, sizeof(got));
	memset(page, 0, sizeof(*page));
	for (uint32_t i = 1; i < LONG; i++)
		page->memory[i] = i * 3;
	join();
	pulls_from = 0;
	page->qpn = urxe_segment_qpn_alloc(seg);
	return 0;
}

static int teardown(void **state)
{
	leave();
	return 0;
}

static void await(unsigned n)
{
	poll_for(wire, receive, NULL, &got.n, n, 3000);
	assert_int_equal(got.n, n);
	assert_int_equal(got.by_ring, n);
	assert_int_equal(got.wrong, 0);
}

static void packets_and_runs_arrive_with_their_addresses(void **state)
{
	union ibv_gid lo = gid_of("::ffff:127.0.0.1");
	pid_t pid = child_of(send_three);

	await(1);
	assert_int_equal(got.psn, 1);
	assert_int_equal(got.span, 1);
	assert_int_equal(got.payload_len, 5);
	assert_memory_equal(got.payload, "hello", 5);
	assert_memory_equal(&got.sgid, lo.raw, 16);
	assert_memory_equal(&got.dgid, lo.raw, 16);
	assert_int_equal(got.traffic_class, 0x20);
	page->seen = 1;
	await(2);
	assert_int_equal(got.span, 30);
	assert_int_equal(got.payload_len, 30000);
	assert_memory_equal(got.payload, page->memory, 30000);
	page->seen = 2;
	await(3);
	assert_int_equal(got.traffic_class, 0x40);
	ends_well(pid);
}

/* Takes the first packet, and the others when memory was offered behind them. */
static void await_offer(void)
{
	await(1);
	page->seen = 1;
	for (int i = 0; i < 3000 && !page->offered; i++)
		pause_ms(1);
	await(page->offered);
}

static void a_neighbour_that_makes_room_is_sent_copies(void **state)
{
	pid_t pid = child_of(copy);

	await_offer();
	page->seen = 2;
	await(page->offered + 1);
	assert_int_equal(got.refs_len, 0);
	assert_int_equal(got.payload_len, URXE_MAX_RUN);
	ends_well(pid);
}

static void copies_past_the_caches_are_complete(void **state)
{
	pid_t pid = child_of(copy_past_caches);

	await(1);
	page->seen = 1;
	await(2);
	page->seen = 2;
	assert_int_equal(got.payload_len, 1 + 4095 + 3001);
	for (uint32_t i = 0; i < got.payload_len; i++)
		assert_int_equal(got.payload[i], (uint8_t)(i * 7));
	ends_well(pid);
}

static void large_payloads_of_a_neighbour_that_is_behind_are_read_where_they_lie(void **state)
{
	pid_t pid = child_of(refer);

	await_offer();
	assert_int_equal(got.refs_len, LONG);
	assert_int_equal(got.span, LONG / 1024);
	assert_int_equal(got.pulled, 0);
	for (uint32_t i = 0; i < LONG; i++)
		assert_int_equal(got.payload[i], (uint8_t)(i * 7));
	ends_well(pid);
}

static void a_living_sender_needs_no_cookie(void **state)
{
	pid_t pid = child_of(refer);

	pulls_from = pid;
	await_offer();
	assert_int_equal(got.pulled, 0);
	for (uint32_t i = 0; i < LONG; i++)
		assert_int_equal(got.payload[i], (uint8_t)(i * 7));
	ends_well(pid);
}

static pid_t many_were_referred_to(void)
{
	pid_t pid = child_of(refer_to_many);

	await(1);
	page->seen = 1;
	for (int i = 0; i < 3000 && !page->offered; i++)
		pause_ms(1);
	assert_int_equal(page->offered, 1 + PAYLOADS);
	return pid;
}

/* What came is to be seen, and acknowledged, before all of it was copied. */
static void a_turn_ends_after_so_many_bytes(void **state)
{
	pid_t pid = many_were_referred_to();
	unsigned before;

	do {
		before = got.n;
		assert_true(urxe_wire_poll(wire, 64, urxe_now(), receive, NULL) > 0);
		/* The third one exceeds 256 KiB. */
		assert_true(got.n - before == 3 || got.n == 1 + PAYLOADS);
		assert_int_equal(got.pulled, 0);
	} while (got.n < 1 + PAYLOADS);
	assert_int_equal(got.n - before, PAYLOADS % 3);
	page->seen = got.n;
	ends_well(pid);
}

static void a_dead_sender_s_ring_is_emptied_at_once(void **state)
{
	pid_t pid = many_were_referred_to();

	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	urxe_wire_housekeep(wire);
	assert_int_equal(got.n, 1 + PAYLOADS);
}

static void what_was_taken_back_is_not_read(void **state)
{
	pid_t pid;

	page->memory[0] = 1;
	pid = child_of(refer);
	/* Looks at the last one when it is void already. */
	await_offer();
	assert_int_equal(got.pulled, -ESTALE);
	ends_well(pid);
}

/* All that it has published counts, and its slot's next owner can send. */
static void a_killed_sender_leaves_whole_packets_and_a_usable_ring(void **state)
{
	for (unsigned round = 0; round < 20; round++) {
		pid_t pid = child_of(send_until_killed);
		unsigned before = got.n;

		poll_for(wire, receive, NULL, &got.n, before + 50 + round * 37, 3000);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		urxe_wire_housekeep(wire);
		assert_true(got.n > before);
		assert_int_equal(got.by_ring, got.n);
		assert_int_equal(got.wrong, 0);
		for (unsigned s = URXE_SLOT_FIRST; s <= URXE_SLOT_LAST; s++)
			assert_int_equal(wire->shm->window->opened[s], 0);
	}
}

static void a_sleeper_is_woken(void **state)
{
	struct pollfd pfd = {.fd = urxe_wire_fd(wire), .events = POLLIN};
	pid_t pid = child_of(send_late);

	await(1);
	urxe_wire_poll(wire, 64, urxe_now(), receive, NULL);
	assert_true(urxe_wire_sleep(wire));
	assert_int_equal(poll(&pfd, 1, 3000), 1);
	urxe_wire_awake(wire);
	assert_int_equal(urxe_wire_look(wire), URXE_LOOK_WAITS);
	await(2);
	ends_well(pid);
}

static void who_finds_a_packet_does_not_sleep(void **state)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0);

	/* To ourselves. */
	assert_int_equal(send_one(&path, 9, "z", 1, false), 1);
	assert_false(urxe_wire_sleep(wire));
	/* Another thread polls meanwhile, and leaves nothing. */
	await(1);
	assert_false(urxe_wire_missed(wire));
	/* Now the neighbour wakes us, and that thread takes the wake-up away. */
	assert_int_equal(send_one(&path, 10, "z", 1, false), 1);
	wire->had_at = wire->asked_at = 0;
	await(2);
	for (int i = 0; i < 100 && !wire->shm->woken; i++) {
		wire->asked_at = 0;
		pause_ms(1);
		urxe_wire_poll(wire, 64, urxe_now(), receive, NULL);
	}
	assert_true(urxe_wire_missed(wire));
	assert_false(urxe_wire_missed(wire));
	urxe_wire_awake(wire);
}

static void no_other_user_can_open_the_socket(void **state)
{
	struct sockaddr_un name = own_socket(seg);
	char line[512];
	struct stat st;
	FILE *f;

	assert_int_equal(stat(name.sun_path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0600);
	f = fopen("/proc/net/unix", "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		assert_null(strstr(line, "@urxe"));
	fclose(f);
}

/* Sends one byte as a process of another user would that has been handed the socket. */
static bool wake_as(uid_t uid)
{
	struct sockaddr_un name = own_socket(seg);
	struct iovec iov = {"", 1};
	_Alignas(8) uint8_t control[CMSG_SPACE(sizeof(struct ucred))] = {0};
	struct ucred cred = {.pid = getpid(), .uid = uid, .gid = getgid()};
	struct msghdr msg = {
		.msg_name = &name,
		.msg_namelen = sizeof(name),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct cmsghdr *c = (struct cmsghdr *)control;
	bool sent;

	*c = (struct cmsghdr){CMSG_LEN(sizeof(cred)), SOL_SOCKET, SCM_CREDENTIALS};
	memcpy(CMSG_DATA(c), &cred, sizeof(cred));
	sent = sendmsg(fd, &msg, 0) == 1;
	close(fd);
	return sent;
}

static void no_other_user_can_wake_us(void **state)
{
	if (!wake_as(65534))
		skip(); /* this user may not speak for another */
	wire->asked_at = 0;
	urxe_wire_poll(wire, 64, urxe_now(), receive, NULL);
	assert_false(wire->shm->woken);
	assert_true(wake_as(geteuid()));
	wire->asked_at = 0;
	urxe_wire_poll(wire, 64, urxe_now() + 1000000000, receive, NULL);
	assert_true(wire->shm->woken);
}

static unsigned heard, heard_from;

static void hear(unsigned from, const void *message, uint32_t len)
{
	heard++;
	heard_from = from;
}

/* A datagram to ourselves, with descriptors. */
static void send_datagram(const void *bytes, size_t len, unsigned num_fds)
{
	struct sockaddr_un name = own_socket(seg);
	struct iovec iov = {(void *)bytes, len};
	_Alignas(8) uint8_t control[CMSG_SPACE(200 * sizeof(int))] = {0};
	struct msghdr msg = {
		.msg_name = &name,
		.msg_namelen = sizeof(name),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = num_fds ? control : NULL,
		.msg_controllen = num_fds ? CMSG_SPACE(num_fds * sizeof(int)) : 0,
	};
	struct cmsghdr *c = (struct cmsghdr *)control;
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	*c = (struct cmsghdr){CMSG_LEN(num_fds * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	for (unsigned i = 0; i < num_fds; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(fd), &fd, sizeof(fd));
	assert_int_equal(sendmsg(fd, &msg, 0), len);
	close(fd);
	wire->asked_at = 0;
	urxe_wire_poll(wire, 64, urxe_now() + 1000000000, receive, NULL);
}

/* The header of a message (ipc.c): its mark, and the slot of the process that sends it. */
static void a_message_of_no_slot_is_dropped(void **state)
{
	static const uint32_t none[] = {0, URXE_SLOT_FIRST - 1, URXE_WIDE_LAST + 1, 1u << 31,
					UINT32_MAX};
	uint32_t message[32] = {0x75727866};

	heard = 0;
	urxe_wire_on_message(wire, hear);
	for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		message[1] = none[i];
		send_datagram(message, sizeof(message), 0);
		assert_int_equal(heard, 0);
	}
	message[1] = URXE_SLOT_LAST;
	send_datagram(message, sizeof(message), 0);
	assert_int_equal(heard, 1);
	assert_int_equal(heard_from, URXE_SLOT_LAST);
}

static unsigned open_descriptors(void)
{
	glob_t found;
	unsigned n;

	assert_int_equal(glob("/proc/self/fd/*", 0, NULL, &found), 0);
	n = found.gl_pathc;
	globfree(&found);
	return n;
}

/* Whatever room is left for them by what says who sends. */
static void descriptors_that_come_along_are_not_taken(void **state)
{
	uint32_t message[32] = {0x75727866, URXE_SLOT_LAST};
	unsigned before = open_descriptors();

	heard = 0;
	urxe_wire_on_message(wire, hear);
	for (unsigned num_fds = 1; num_fds <= 200; num_fds = num_fds * 6 + 1) {
		send_datagram(message, sizeof(message), num_fds);
		send_datagram("", 1, num_fds);
		assert_int_equal(open_descriptors(), before);
	}
	assert_int_equal(heard, 3);
}

static uint32_t owner;

static void wake_the_parent(void)
{
	urxe_ipc_wake(wire, owner);
}

/* A wire that is made by a thread that has gone to another network namespace. */
static void *in_another_namespace(void *arg)
{
	struct pollfd pfd = {.events = POLLIN};
	bool is_own = own_network();
	int *woken = arg;
	pid_t pid;

	unsetenv("URXE_WIRE");
	if (!is_own)
		return NULL;
	join();
	owner = urxe_segment_slot(seg);
	pid = child_of(wake_the_parent);
	pfd.fd = urxe_wire_fd(wire);
	*woken = poll(&pfd, 1, 5000);
	waitpid(pid, NULL, 0);
	leave();
	return NULL;
}

static void a_thread_in_another_namespace_is_woken(void **state)
{
	int woken = -1;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, in_another_namespace, &woken), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (woken < 0)
		skip(); /* no namespaces here */
	assert_int_equal(woken, 1);
}

static void a_full_ring_is_a_full_socket(void **state)
{
	struct urxe_path path = path_to("::ffff:127.0.0.1", 0);
	unsigned slot = urxe_segment_slot(seg), n = 0;

	while (n < 1000 && send_one(&path, n, "z", 1, false) == 1)
		n++;
	assert_in_range(n, 200, 256);
	assert_false(urxe_wire_has_room(wire, slot));
	await(n);
	assert_true(urxe_wire_has_room(wire, slot));
	assert_int_equal(send_one(&path, n, "z", 1, false), 1);
	await(n + 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(packets_and_runs_arrive_with_their_addresses),
		TEST(a_neighbour_that_makes_room_is_sent_copies),
		TEST(large_payloads_of_a_neighbour_that_is_behind_are_read_where_they_lie),
		TEST(copies_past_the_caches_are_complete),
		TEST(a_living_sender_needs_no_cookie),
		TEST(a_turn_ends_after_so_many_bytes),
		TEST(a_dead_sender_s_ring_is_emptied_at_once),
		TEST(what_was_taken_back_is_not_read),
		TEST(a_killed_sender_leaves_whole_packets_and_a_usable_ring),
		TEST(a_sleeper_is_woken),
		TEST(who_finds_a_packet_does_not_sleep),
		TEST(no_other_user_can_open_the_socket),
		TEST(no_other_user_can_wake_us),
		TEST(a_message_of_no_slot_is_dropped),
		TEST(descriptors_that_come_along_are_not_taken),
		cmocka_unit_test(a_thread_in_another_namespace_is_woken),
		TEST(a_full_ring_is_a_full_socket),
	};

	own_network();
	unsetenv("URXE_WIRE");
	setenv("URXE_DEVICES", "urxe0=lo", 1);
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(page != MAP_FAILED);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
