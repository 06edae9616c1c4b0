// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * QP 1 among the processes of a host (IBTA vol. 1, 13.5.1): what is taken as a MAD, who is given
 * it, how it is handed on; and what the engine does for the floor above while no device is open.
 *
 * The parent and its children have an engine each and are users of QP 1. What a child is handed,
 * and what it shall do with it, is in memory that all share.
 */
#include "wire_test.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "cm/manager.h"
#include "hca/engine.h"
#include "hca/gsi.h"
#include "cm/port_space.h"
#include "host/segment_records.h"

#define CLASS_CM 7
#define CLASS_PM 4 /* performance management */
#define ATTR_REQ 0x10
#define ATTR_RTU 0x14

#define PROCESSES 4

struct process {
	volatile pid_t pid;
	bool record;
	_Atomic unsigned slot;
	_Atomic bool start, ready, gone; /* said by the parent, the child, the nursery */
	_Atomic unsigned received, ran, events, died;
	_Atomic unsigned died_slot, records;
	_Atomic unsigned forward_to; /* slot; 0: keeps what it gets */
	_Atomic bool forward_all;
	_Atomic int forwarded; /* result of that */
	_Atomic uint64_t deadline, ran_at;
	_Atomic bool end;
	_Atomic uint16_t from_port; /* UDP; 0: it came through memory */
	struct urxe_gsi_rx last;
	uint8_t mad[URXE_MAD_BYTES];
};

static struct process *processes; /* 0 is the parent */
static struct process *me;
static struct urxe_device *dev;
static struct urxe_path path;

static void receive(const struct urxe_gsi_rx *rx)
{
	unsigned to = atomic_load(&me->forward_to);

	memcpy(me->mad, rx->mad, sizeof(me->mad));
	me->last = *rx;
	atomic_store(&me->from_port, rx->rx->source_port);
	if (to)
		atomic_store(&me->forwarded, urxe_gsi_forward(rx, to));
	if (atomic_load(&me->forward_all))
		atomic_store(&me->forwarded, urxe_gsi_forward_all(rx));
	atomic_fetch_add(&me->received, 1);
}

static uint64_t deadline(void)
{
	return atomic_load(&me->deadline);
}

static void run(uint64_t now)
{
	atomic_store(&me->ran_at, urxe_now());
	atomic_store(&me->deadline, UINT64_MAX);
	atomic_fetch_add(&me->ran, 1);
}

static void port_event(struct urxe_port *port, enum ibv_event_type event)
{
	if (dev && port == dev->ports && event == IBV_EVENT_GID_CHANGE) /* children have none */
		atomic_fetch_add(&me->events, 1);
}

static void count_record(const uint8_t *record, void *arg)
{
	if (record[0] == 0x5a)
		atomic_fetch_add(&me->records, 1);
}

static void slot_died(unsigned slot)
{
	urxe_segment_records_walk(urxe_hca.seg, URXE_RECORD_CONNECTION, count_record, NULL);
	atomic_store(&me->died_slot, slot);
	atomic_fetch_add(&me->died, 1);
}

static const struct urxe_gsi_user gsi_user = {
	.mgmt_class = CLASS_CM,
	.receive = receive,
	.deadline = deadline,
	.run = run,
	.port_event = port_event,
	.slot_died = slot_died,
};

static void use(const struct urxe_gsi_user *user)
{
	urxe_engine_lock();
	urxe_gsi_unregister(&gsi_user);
	if (user)
		assert_int_equal(urxe_gsi_register(user), 0);
	urxe_engine_unlock();
}

static void begin(struct process *as, const struct urxe_gsi_user *user)
{
	me = as;
	atomic_store(&me->deadline, UINT64_MAX);
	if (urxe_engine_get())
		_exit(1);
	use(user);
	atomic_store(&me->slot, urxe_segment_slot(urxe_hca.seg));
}

#define SOON(cond)                                              \
	do {                                                    \
		for (int ms = 0; ms < 8000 && !(cond); ms += 2) \
			pause_ms(2);                            \
		assert_true(cond);                              \
	} while (0)

static void child(struct process *as)
{
	uint8_t bytes[URXE_RECORD_BYTES] = {0x5a};
	uint32_t index;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin(as, &gsi_user);
	if (as->record)
		urxe_segment_records_put(urxe_hca.seg, URXE_RECORD_CONNECTION, bytes, &index);
	atomic_store(&as->ready, true);
	while (!atomic_load(&as->end))
		pause_ms(1);
	urxe_engine_put();
	_exit(0);
}

/*
 * Children are made by a process without threads, which the parent is not: so that they begin with
 * nothing of its engine, and the thread sanitizer can follow them.
 */
static void nursery(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;; pause_ms(1)) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);

		for (unsigned i = 1; i < PROCESSES; i++) {
			if (pid > 0 && pid == processes[i].pid)
				atomic_store(&processes[i].gone, true);
			if (!atomic_exchange(&processes[i].start, false))
				continue;
			pid = fork();
			if (!pid)
				child(&processes[i]);
			processes[i].pid = pid; /* the memory is the child's as well */
		}
	}
}

static void start_child(struct process *p, bool record)
{
	p->record = record;
	atomic_store(&p->start, true);
	SOON(atomic_load(&p->ready));
}

static void end_child(struct process *p, int sig)
{
	assert_true(p->pid > 0);
	if (sig)
		kill(p->pid, sig);
	atomic_store(&p->end, true);
	SOON(atomic_load(&p->gone));
}

static int setup(void **state)
{
	memset(processes, 0, PROCESSES * sizeof(*processes));
	begin(&processes[0], &gsi_user);
	return 0;
}

static int teardown(void **state)
{
	urxe_engine_put();
	return 0;
}

/* A message of the communication manager, as far as steering looks at it. */
static void make_mad(uint8_t mad[URXE_MAD_BYTES], unsigned attribute, unsigned slot, uint8_t mark)
{
	memset(mad, mark, URXE_MAD_BYTES);
	mad[0] = 1;
	mad[1] = CLASS_CM;
	mad[16] = 0;
	mad[17] = attribute;
	mad[24 + 7] = slot;
}

/* near: the slot that the sender knows it to be for; 0: none. */
static void send_mad_to(unsigned attribute, unsigned slot, unsigned near, uint8_t mark)
{
	uint8_t mad[URXE_MAD_BYTES];
	int ret;

	make_mad(mad, attribute, slot, mark);
	urxe_engine_lock();
	ret = urxe_gsi_send(&path, URXE_PKEY_DEFAULT, near, mad);
	urxe_engine_unlock();
	assert_int_equal(ret, 0);
}

static void send_mad(unsigned attribute, unsigned slot, uint8_t mark)
{
	send_mad_to(attribute, slot, 0, mark);
}

static unsigned received(unsigned i)
{
	return atomic_load(&processes[i].received);
}

static void a_mad_arrives(void **state)
{
	uint8_t mad[URXE_MAD_BYTES];

	make_mad(mad, ATTR_RTU, me->slot, 0xa5);
	send_mad(ATTR_RTU, me->slot, 0xa5);
	SOON(received(0) == 1);
	assert_memory_equal(me->mad, mad, sizeof(mad));
	assert_int_equal(me->last.src_qpn, 1);
	assert_int_equal(me->last.pkey, 0xffff);
	send_mad(ATTR_REQ, 0, 1);
	SOON(received(0) == 2);
}

/* Fields of a packet to QP 1 that is no MAD. */
struct bad {
	const char *what;
	uint8_t opcode;
	uint16_t pkey;
	uint32_t qkey;
	unsigned len;
};

static void send_bad(const struct bad *bad)
{
	uint8_t payload[512] = {1, 7};
	struct iovec iov = {payload, bad->len};
	struct urxe_tx_packet pkt = {
		.header_len = 20, .iov = &iov, .iovcnt = 1, .payload_len = bad->len};

	urxe_bth_fill((struct urxe_bth *)pkt.header, bad->opcode, URXE_BTH_MIGREQ,
		      urxe_pad_of(bad->len), bad->pkey, 1, false, 5);
	urxe_deth_fill((struct urxe_deth *)(pkt.header + 12), bad->qkey, 1);
	urxe_engine_lock();
	assert_int_equal(urxe_wire_send(urxe_hca.wire, &path, &pkt, 1), 1);
	urxe_engine_unlock();
}

static void what_is_no_mad_is_dropped(void **state)
{
	static const struct bad good = {"good", URXE_UD_SEND_ONLY, 0xffff, URXE_GSI_QKEY, 256};
	static const struct bad table[] = {
		{"Q_Key", URXE_UD_SEND_ONLY, 0xffff, 0x80010001, 256},
		{"P_Key", URXE_UD_SEND_ONLY, 0x8001, URXE_GSI_QKEY, 256},
		{"short", URXE_UD_SEND_ONLY, 0xffff, URXE_GSI_QKEY, 252},
		{"pad", URXE_UD_SEND_ONLY, 0xffff, URXE_GSI_QKEY, 255},
		{"long", URXE_UD_SEND_ONLY, 0xffff, URXE_GSI_QKEY, 260},
		{"service", URXE_RC_SEND_ONLY, 0xffff, URXE_GSI_QKEY, 256},
	};

	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		send_bad(&table[i]);
	send_bad(&good);
	SOON(received(0) >= 1);
	pause_ms(20);
	assert_int_equal(received(0), 1);
}

/* By its communication ID a message finds its process in the kernel; a REQ is anybody's. */
static void messages_go_to_whom_they_name(void **state)
{
	uint64_t before[URXE_NUM_COUNTERS], after[URXE_NUM_COUNTERS];

	start_child(&processes[1], false);
	urxe_engine_lock();
	urxe_wire_housekeep(urxe_hca.wire);
	urxe_engine_unlock();
	urxe_segment_counters_sum(urxe_hca.seg, dev->index, before);
	for (unsigned i = 1; i <= 50; i++) {
		send_mad(ATTR_RTU, processes[1].slot, i);
		send_mad(ATTR_RTU, processes[0].slot, i);
		SOON(received(1) == i && received(0) == i);
	}
	for (unsigned i = 1; i <= 200; i++) {
		send_mad(ATTR_REQ, 0, i);
		SOON(received(0) + received(1) == 100 + i);
	}
	assert_in_range(received(0), 51, 249);
	urxe_segment_counters_sum(urxe_hca.seg, dev->index, after);
	assert_int_equal(after[URXE_CNT_FORWARDED], before[URXE_CNT_FORWARDED]);
	end_child(&processes[1], 0);
}

/* Whom the sender knows to be a neighbour gets its messages as it gets all packets. */
static void neighbours_get_them_through_memory(void **state)
{
	unsigned slot;

	start_child(&processes[1], false);
	slot = processes[1].slot;
	for (unsigned i = 1; i <= 300; i++) {
		send_mad_to(ATTR_RTU, slot, slot, i);
		SOON(received(1) == i);
		assert_int_equal(processes[1].from_port, 0);
		assert_int_equal(processes[1].mad[100], i % 256);
	}
	send_mad_to(ATTR_REQ, 0, processes[0].slot, 7);
	SOON(received(0) == 1);
	assert_int_equal(processes[0].from_port, 0);
	assert_int_equal(received(1), 300);

	/* It can be handed on from there, too. */
	atomic_store(&processes[1].forward_to, processes[0].slot);
	send_mad_to(ATTR_REQ, 0, slot, 8);
	SOON(received(0) == 2);
	assert_int_equal(processes[0].mad[100], 8);
	assert_int_equal(processes[0].last.src_qpn, 1);
	assert_int_equal(processes[1].forwarded, 0);

	/* What was known to be for the dead is for whoever answers in their place. */
	end_child(&processes[1], SIGKILL);
	pause_ms(2);
	send_mad_to(ATTR_RTU, slot, slot, 9);
	SOON(received(0) == 3);
	assert_int_not_equal(processes[0].from_port, 0);
}

static void handing_on_ends(void **state)
{
	start_child(&processes[1], false);
	atomic_store(&processes[0].forward_to, processes[1].slot);
	atomic_store(&processes[1].forward_to, processes[0].slot);
	send_mad(ATTR_RTU, processes[0].slot, 0x77);
	/* There, back, and not once more. */
	SOON(received(0) == 2);
	SOON(received(1) == 1);
	assert_int_equal(processes[1].mad[100], 0x77);
	assert_int_equal(processes[1].last.src_qpn, 1);
	assert_int_equal(processes[1].forwarded, 0);
	assert_int_equal(processes[0].forwarded, -ELOOP);

	atomic_store(&processes[1].forward_to, 0);
	atomic_store(&processes[0].forward_to, processes[0].slot);
	send_mad(ATTR_RTU, processes[0].slot, 0x78);
	SOON(received(0) == 3);
	assert_int_equal(processes[0].forwarded, -ESRCH);
	end_child(&processes[1], SIGKILL);
	atomic_store(&processes[0].forward_to, processes[1].slot);
	send_mad(ATTR_RTU, processes[0].slot, 0x79);
	SOON(received(0) == 4);
	assert_int_equal(processes[0].forwarded, -ESRCH);
}

/* Where nobody knows whom it is for, all get it, and once only. */
static void all_are_handed_it_once(void **state)
{
	for (unsigned i = 0; i < PROCESSES; i++) {
		if (i)
			start_child(&processes[i], false);
		atomic_store(&processes[i].forward_all, true);
	}
	for (unsigned n = 1; n <= 20; n++) {
		unsigned slot = processes[n % PROCESSES].slot;

		send_mad_to(ATTR_RTU, slot, slot, n);
		for (unsigned i = 0; i < PROCESSES; i++)
			SOON(received(i) >= n);
	}
	pause_ms(20);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(received(i), 20);
	assert_int_equal(processes[1].forwarded, -ELOOP); /* the last was process 0's */
	assert_int_equal(processes[0].forwarded, 0);
	for (unsigned i = 1; i < PROCESSES; i++)
		end_child(&processes[i], 0);
}

static void a_process_without_user_passes_on(void **state)
{
	start_child(&processes[1], false);
	use(NULL);
	for (unsigned i = 0; i < 50; i++)
		send_mad(ATTR_RTU, processes[0].slot, i);
	SOON(received(1) == 50);
	assert_int_equal(received(0), 0);
	end_child(&processes[1], 0);
}

static unsigned of_performance;

static void receive_performance(const struct urxe_gsi_rx *rx)
{
	of_performance++;
	assert_int_equal(rx->mad[1], CLASS_PM);
	assert_int_equal(rx->pkey, URXE_PKEY_DEFAULT);
}

static void send_class(uint8_t mgmt_class)
{
	uint8_t mad[URXE_MAD_BYTES];

	make_mad(mad, 1, 0, 1);
	mad[1] = mgmt_class;
	urxe_engine_lock();
	assert_int_equal(urxe_gsi_send(&path, URXE_PKEY_DEFAULT, 0, mad), 0);
	urxe_engine_unlock();
}

static void each_class_has_its_user(void **state)
{
	static const struct urxe_gsi_user user = {.mgmt_class = CLASS_PM,
						  .receive = receive_performance};

	of_performance = 0;
	urxe_engine_lock();
	assert_int_equal(urxe_gsi_register(&user), 0);
	assert_int_equal(urxe_gsi_register(&user), -EBUSY);
	urxe_engine_unlock();
	send_class(0x30); /* nobody's */
	send_class(CLASS_PM);
	send_class(CLASS_CM);
	SOON(received(0) == 1);
	assert_int_equal(of_performance, 1);
	urxe_engine_lock();
	urxe_gsi_unregister(&user);
	urxe_engine_unlock();
	send_class(CLASS_PM);
	send_class(CLASS_CM);
	SOON(received(0) == 2);
	assert_int_equal(of_performance, 1);
}

/* More than the queue between two processes holds (10, where nobody set it) waits its turn, for two
 * seconds at most: so few that they are sent in a small part of these. */
static void many_are_handed_on(void **state)
{
	enum { MANY = 40 };

	start_child(&processes[1], false);
	atomic_store(&processes[0].forward_to, processes[1].slot);
	kill(processes[1].pid, SIGSTOP);
	for (unsigned i = 1; i <= MANY; i++) {
		send_mad(ATTR_RTU, processes[0].slot, i);
		SOON(received(0) == i);
	}
	kill(processes[1].pid, SIGCONT);
	SOON(received(1) == MANY);
	end_child(&processes[1], 0);
}

static uint32_t listen_on(uint16_t port)
{
	struct urxe_binding b = {.ps = 0x106, .port = port, .addr = path.dst.gid};
	uint32_t row;

	urxe_engine_lock();
	assert_int_equal(urxe_port_space_bind(urxe_hca.seg, &b, &row), 0);
	assert_int_equal(urxe_port_space_listen(urxe_hca.seg, row), 0);
	urxe_engine_unlock();
	return row;
}

/* Where somebody listens, requests go there at once, and need not be handed on. */
static void requests_go_to_listeners(void **state)
{
	uint32_t row;

	start_child(&processes[1], false);
	row = listen_on(7000);
	for (unsigned i = 1; i <= 50; i++) {
		send_mad(ATTR_REQ, 0, i);
		SOON(received(0) == i);
	}
	assert_int_equal(received(1), 0);
	urxe_engine_lock();
	urxe_segment_port_release(urxe_hca.seg, row);
	urxe_engine_unlock();
	for (unsigned i = 51; i <= 150; i++) {
		send_mad(ATTR_REQ, 0, i);
		SOON(received(0) + received(1) == i);
	}
	assert_true(received(1) > 0);
	end_child(&processes[1], 0);
}

static void a_stopped_process_is_not_given_requests(void **state)
{
	start_child(&processes[1], false);
	kill(processes[1].pid, SIGSTOP);
	pause_ms(4500);
	for (unsigned i = 1; i <= 100; i++) {
		send_mad(ATTR_REQ, 0, i);
		SOON(received(0) == i);
	}
	kill(processes[1].pid, SIGCONT);
	end_child(&processes[1], 0);
	assert_int_equal(received(1), 0);
}

/* The thread sleeps on the wire; a deadline set meanwhile wakes it in time. */
static void timers_run_without_polling(void **state)
{
	for (unsigned i = 1; i <= 10; i++) {
		uint64_t due = urxe_now() + 5000000;

		pause_ms(3);
		urxe_engine_lock();
		atomic_store(&me->deadline, due);
		urxe_engine_unlock();
		SOON(atomic_load(&me->ran) == i);
		assert_true(me->ran_at >= due);
		assert_true(me->ran_at < due + 300000000);
	}
}

static void a_death_is_told_with_what_was_recorded(void **state)
{
	start_child(&processes[1], true);
	start_child(&processes[2], false);
	end_child(&processes[1], SIGKILL);
	SOON(processes[0].died + processes[2].died == 1);
	pause_ms(1200);
	assert_int_equal(processes[0].died + processes[2].died, 1);
	assert_int_equal(processes[0].died_slot + processes[2].died_slot, processes[1].slot);
	assert_int_equal(processes[0].records + processes[2].records, 1);
	end_child(&processes[2], 0);
	pause_ms(1200);
	/* Whoever leaves in good order has not died. */
	assert_int_equal(processes[0].died + processes[2].died, 1);
}

static void addresses_that_come_are_told(void **state)
{
	if (system("ip addr add 127.7.7.7/8 dev lo"))
		skip();
	SOON(atomic_load(&me->events) >= 1);
	assert_int_equal(system("ip addr del 127.7.7.7/8 dev lo"), 0);
}

static void without_an_engine_nothing_is_sent(void **state)
{
	uint8_t mad[URXE_MAD_BYTES] = {0};

	urxe_engine_put();
	urxe_engine_lock();
	assert_int_equal(urxe_gsi_send(&path, URXE_PKEY_DEFAULT, 0, mad), -ENODEV);
	urxe_engine_unlock();
	assert_int_equal(urxe_engine_get(), 0);
	/* The user is still known. */
	send_mad(ATTR_RTU, urxe_segment_slot(urxe_hca.seg), 3);
	SOON(received(0) == 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_mad_arrives),
		TEST(what_is_no_mad_is_dropped),
		TEST(messages_go_to_whom_they_name),
		TEST(neighbours_get_them_through_memory),
		TEST(handing_on_ends),
		TEST(all_are_handed_it_once),
		TEST(a_process_without_user_passes_on),
		TEST(each_class_has_its_user),
		TEST(many_are_handed_on),
		TEST(requests_go_to_listeners),
		TEST(a_stopped_process_is_not_given_requests),
		TEST(timers_run_without_polling),
		TEST(a_death_is_told_with_what_was_recorded),
		TEST(addresses_that_come_are_told),
		TEST(without_an_engine_nothing_is_sent),
	};
	union ibv_gid gid;
	pid_t pid;
	int ret;

	if (!own_host())
		return 0;
	unsetenv("URXE_WIRE");
	urxe_manager_init();
	processes = mmap(NULL, PROCESSES * sizeof(*processes), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (!pid)
		nursery();
	if (pid < 0)
		return 1;
	dev = lo_device();
	gid = gid_of("::ffff:127.0.0.1");
	if (path_between(&path, dev, &gid, &gid, 0, 64, 0, 0))
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return leave_host(ret);
}
