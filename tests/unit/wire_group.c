/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Several processes on one port: steering, forwarding between them, death, multicast. The parent
 * sends; each child has a wire of its own and counts what it is handed in a page that they share.
 */
#include "wire_test.h"

#include <linux/filter.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MAX_CHILDREN 64
#define PSNS	     4096

enum command {
	IDLE,
	JOIN,
	LEAVE,
	TIDY, /* housekeeping */
	QUIT,
};

#define IPV6_GROUP 2
/* As joined, as it arrives, from where. */
static const char *const groups[][3] = {
	{"::ffff:239.1.2.3", "::ffff:239.1.2.3", "::ffff:127.0.0.1"},
	{"ff0e::ffff:239.4.5.6", "::ffff:239.4.5.6", "::ffff:127.0.0.1"},
	{"ff0e::1234", "ff0e::1234", "2001:db8::1"},
};

struct child {
	pid_t pid;
	volatile uint32_t qpn; /* 0: not ready yet */
	volatile enum command command;
	volatile unsigned argument;
	volatile int result;
	volatile unsigned have, wrong, multicast, unexpected_group;
	volatile uint8_t seen[PSNS];
};

/* Packets for a dead process are given to whoever received them. */
static struct strays {
	volatile uint32_t qpn; /* of one that has died */
	volatile unsigned have;
} * strays;

static struct child *children;
static unsigned num_children;
static struct urxe_segment *seg;
static struct urxe_wire *wire;
static struct urxe_device *dev, *ethernet;

static struct urxe_device *group_device(unsigned group)
{
	return group == IPV6_GROUP ? ethernet : dev;
}

/* ---- the children ---- */

static void take(const struct urxe_rx_packet *pkt, void *arg)
{
	struct child *me = arg;
	const struct urxe_bth *bth = (const struct urxe_bth *)pkt->bth;
	struct urxe_packet p;

	if (urxe_packet_parse(pkt->bytes, pkt->len, &p)) {
		me->wrong++;
		return;
	}
	if (strays->qpn && urxe_bth_qpn(bth) == strays->qpn) {
		__atomic_add_fetch(&strays->have, 1, __ATOMIC_RELAXED);
		return;
	}
	if (pkt->path.multicast) {
		union ibv_gid group = gid_of(groups[me->argument][1]);

		me->multicast++;
		if (memcmp(&group, &pkt->path.dst, 16) || urxe_bth_qpn(bth) != URXE_QPN_MULTICAST ||
		    pkt->path.port != group_device(me->argument)->ports->index)
			me->unexpected_group++;
	} else if (urxe_bth_qpn(bth) != me->qpn || pkt->path.port != dev->ports->index) {
		me->wrong++;
	}
	for (uint32_t k = 0; k < p.payload_len; k++)
		if (p.payload[k] != (uint8_t)urxe_bth_psn(bth))
			me->wrong++;
	me->seen[urxe_bth_psn(bth) % PSNS]++;
	me->have++;
}

static void obey(struct child *me, struct urxe_wire *own, enum command command)
{
	const struct urxe_port *port;
	struct urxe_link_addr group;
	union ibv_gid gid;

	switch (command) {
	case JOIN:
	case LEAVE:
		gid = gid_of(groups[me->argument][0]);
		port = group_device(me->argument)->ports;
		urxe_roce_link.group(&group, &gid);
		me->result = 0;
		if (command == JOIN)
			me->result = urxe_wire_mcast_join(own, port, &group);
		else
			urxe_wire_mcast_leave(own, port, &group);
		break;
	case TIDY: urxe_wire_housekeep(own); break;
	default: break;
	}
	me->command = IDLE;
}

static void live(struct child *me)
{
	struct urxe_segment *own_seg;
	struct urxe_wire *own;
	struct pollfd p = {.events = POLLIN};
	enum command command;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (urxe_segment_join(&own_seg) || urxe_wire_create(own_seg, &own))
		_exit(1);
	p.fd = urxe_wire_fd(own);
	me->qpn = urxe_segment_qpn_alloc(own_seg);
	/* Read once in each round: what obey() ends must be the command that it was given. */
	while ((command = me->command) != QUIT) {
		if (command != IDLE)
			obey(me, own, command);
		if (!urxe_wire_poll(own, 64, urxe_now(), take, me))
			poll(&p, 1, 2);
	}
	urxe_wire_destroy(own);
	urxe_segment_leave(own_seg);
	_exit(0);
}

/* ---- the parent ---- */

static void order(struct child *child, enum command command, unsigned argument)
{
	child->argument = argument;
	child->command = command;
	for (int ms = 0; ms < 5000 && child->command != IDLE; ms++)
		pause_ms(1);
	assert_int_equal(child->command, IDLE);
}

/* Children first: what they inherit is nothing. Then our own wire. */
static void begin(unsigned n)
{
	memset(children, 0, MAX_CHILDREN * sizeof(*children));
	num_children = n;
	for (unsigned k = 0; k < n; k++) {
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			live(&children[k]);
		children[k].pid = pid;
	}
	for (unsigned k = 0; k < n; k++) {
		for (int ms = 0; ms < 20000 && !children[k].qpn; ms++)
			pause_ms(1);
		assert_int_not_equal(children[k].qpn, 0);
	}
	assert_int_equal(urxe_segment_join(&seg), 0);
	assert_int_equal(urxe_wire_create(seg, &wire), 0);
}

static void end(void)
{
	for (unsigned k = 0; k < num_children; k++) {
		int status;

		if (!children[k].pid)
			continue;
		children[k].command = QUIT;
		assert_int_equal(waitpid(children[k].pid, &status, 0), children[k].pid);
		assert_int_equal(status, 0);
	}
	urxe_wire_destroy(wire);
	urxe_segment_leave(seg);
}

static void kill_child(unsigned k)
{
	kill(children[k].pid, SIGKILL);
	waitpid(children[k].pid, NULL, 0);
	children[k].pid = 0;
}

static void to_parent(const struct urxe_rx_packet *pkt, void *arg)
{
	unsigned *have = arg;

	if (strays->qpn && urxe_bth_qpn((const struct urxe_bth *)pkt->bth) == strays->qpn)
		__atomic_add_fetch(&strays->have, 1, __ATOMIC_RELAXED);
	else
		++*have;
}

/* Keeps our own wire going, which forwards what was given to it, until *count is reached. */
static void attend(const volatile unsigned *count, unsigned want)
{
	uint64_t start = urxe_now();
	unsigned ours = 0;

	while (*count < want && urxe_now() - start < 3000000000ull) {
		if (!urxe_wire_poll(wire, 64, urxe_now(), to_parent, &ours))
			pause_ms(1);
	}
	assert_int_equal(ours, 0);
}

static struct urxe_path path_on(struct urxe_device *on, const char *to, const char *from,
				uint32_t hash)
{
	union ibv_gid sgid = gid_of(from), dgid = gid_of(to);
	struct urxe_path path;

	assert_int_equal(path_between(&path, on, &sgid, &dgid, 0, 0, 0, hash), 0);
	return path;
}

static struct urxe_path path_to(const char *to, const char *from, uint32_t hash)
{
	return path_on(dev, to, from, hash);
}

static const char *const loop[] = {"::ffff:127.0.0.1", "::1"};

/* One batch; packet k has PSN psn + k and goes to qpns[k % n]. */
static void send_to(const struct urxe_path *path, const uint32_t *qpns, unsigned n, uint32_t psn,
		    unsigned packets, unsigned size)
{
	struct urxe_tx_packet pkts[URXE_TX_BATCH];
	static uint8_t data[URXE_TX_BATCH][4096];
	struct iovec iov[URXE_TX_BATCH];

	for (unsigned k = 0; k < packets; k++) {
		memset(data[k], psn + k, size);
		iov[k] = (struct iovec){data[k], size};
		fill_packet(&pkts[k], qpns[k % n], psn + k, &iov[k], 1);
	}
	assert_int_equal(urxe_wire_send(wire, path, pkts, packets), packets);
}

static uint64_t forwarded(void)
{
	uint64_t sum[URXE_NUM_COUNTERS];

	urxe_segment_counters_sum(seg, dev->index, sum);
	return sum[URXE_CNT_FORWARDED];
}

/* A datagram is counted when it has left, which its reader may notice first. */
static unsigned forwards_since(uint64_t before, unsigned want)
{
	for (int ms = 0; ms < 1000 && forwarded() - before < want; ms++)
		pause_ms(1);
	return forwarded() - before;
}

static void send_to_each(unsigned family, unsigned batches, unsigned size)
{
	for (unsigned k = 0; k < num_children; k++) {
		struct urxe_path path = path_to(loop[family], loop[family], k);
		uint32_t qpn = children[k].qpn;
		unsigned before = children[k].have;

		if (!children[k].pid)
			continue;
		for (unsigned b = 0; b < batches; b++)
			send_to(&path, &qpn, 1, b * 16, 16, size);
		attend(&children[k].have, before + batches * 16);
		assert_int_equal(children[k].have, before + batches * 16);
		assert_int_equal(children[k].wrong, 0);
	}
}

static void steering(void **state)
{
	uint64_t before;

	begin(4);
	before = forwarded();
	for (unsigned family = 0; family < 2; family++)
		send_to_each(family, 20, 100);
	assert_int_equal(forwarded(), before);
	end();
}

static void sixty_four(void **state)
{
	uint64_t before;

	begin(MAX_CHILDREN);
	before = forwarded();
	for (unsigned family = 0; family < 2; family++)
		send_to_each(family, 2, 8);
	assert_int_equal(forwarded(), before);
	end();
}

/* The group's program as a lunatic would write it: everything to the socket at `index`. */
static void misguide(unsigned index)
{
	struct sock_filter insn = {BPF_RET | BPF_K, 0, 0, index};
	struct sock_fprog prog = {1, &insn};

	for (unsigned f = 0; f < 2; f++)
		assert_int_equal(setsockopt(wire->recv[f].fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF,
					    &prog, sizeof(prog)),
				 0);
}

/* All packets come to one process, and are its own, another's, or of several: all arrive, once. */
static void forwarding(void **state)
{
	uint64_t before;

	begin(4);
	for (unsigned index = 0; index < 5; index++) {
		misguide(index);
		before = forwarded();
		for (unsigned family = 0; family < 2; family++)
			send_to_each(family, 1, index * 1000);
		/* 4 children, 16 packets, 2 families; one child's need no forwarding */
		assert_int_equal(forwards_since(before, (index < 4 ? 3 : 4) * 16 * 2),
				 (index < 4 ? 3 : 4) * 16 * 2);
	}
	end();
}

/* One batch that the kernel cannot split: packets of four owners in turn. */
static void mixed_batches(void **state)
{
	begin(4);
	for (unsigned family = 0; family < 2; family++) {
		struct urxe_path path = path_to(loop[family], loop[family], 3);
		uint32_t qpns[4];

		for (unsigned k = 0; k < 4; k++)
			qpns[k] = children[k].qpn;
		for (unsigned round = 0; round < 10; round++) {
			for (unsigned k = 0; k < 4; k++) {
				children[k].have = 0;
				memset((void *)children[k].seen, 0, PSNS);
			}
			send_to(&path, qpns, 4, round * 64, 64, round * 96);
			for (unsigned k = 0; k < 4; k++) {
				attend(&children[k].have, 16);
				assert_int_equal(children[k].have, 16);
				assert_int_equal(children[k].wrong, 0);
				for (unsigned i = 0; i < 64; i++)
					assert_int_equal(children[k].seen[round * 64 + i],
							 i % 4 == k);
			}
		}
	}
	assert_true(forwarded() > 0);
	end();
}

/* kill -9: what is for the dead stays where it came, the living get all that is theirs, and after
 * tidying up without forwarding again. */
static void death(void **state)
{
	uint32_t dead;
	uint64_t before;

	begin(8);
	dead = strays->qpn = children[2].qpn;
	kill_child(2);
	kill_child(5);
	for (unsigned family = 0; family < 2; family++) {
		struct urxe_path path = path_to(loop[family], loop[family], 1);

		send_to_each(family, 4, 64);
		send_to(&path, &dead, 1, 0, 16, 64);
	}
	attend(&strays->have, 2 * 16);
	assert_int_equal(strays->have, 2 * 16);
	strays->qpn = strays->have = 0;
	urxe_wire_housekeep(wire);
	for (unsigned k = 0; k < 8; k++)
		if (children[k].pid)
			order(&children[k], TIDY, 0);
	before = forwarded();
	for (unsigned family = 0; family < 2; family++)
		send_to_each(family, 4, 64);
	/* whom the kernel moved is known when one dies; when two die at once, their order is not */
	assert_true(forwarded() - before <= 2 * 2 * 4 * 16);
	end();
}

static void leaving(void **state)
{
	uint64_t before;

	begin(6);
	for (unsigned k = 0; k < 6; k += 2) {
		children[k].command = QUIT;
		waitpid(children[k].pid, NULL, 0);
		children[k].pid = 0;
		before = forwarded();
		for (unsigned family = 0; family < 2; family++)
			send_to_each(family, 4, 64);
		assert_int_equal(forwarded(), before);
	}
	end();
}

/* The child of a fork lets go of what it inherited, and its parent notices nothing. */
static void forked(void **state)
{
	int status;
	pid_t pid;

	begin(2);
	pid = fork();
	if (!pid) {
		int fd = urxe_wire_fd(wire);

		urxe_wire_forked(wire);
		_exit(fcntl(fd, F_GETFD) == -1 && errno == EBADF ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (unsigned family = 0; family < 2; family++)
		send_to_each(family, 4, 64);
	end();
}

static unsigned multicasts(void)
{
	unsigned n = 0;

	for (unsigned k = 0; k < num_children; k++)
		n += children[k].multicast;
	return n;
}

static void multicast(void **state)
{
	static const uint32_t everyone = URXE_QPN_MULTICAST;

	for (unsigned g = 0; g < (ethernet ? 3 : 2); g++) {
		struct urxe_path path;
		unsigned ours = 0;

		begin(4);
		path = path_on(group_device(g), groups[g][0], groups[g][2], g);
		/* nobody has joined */
		send_to(&path, &everyone, 1, 0, 4, 32);
		pause_ms(20);
		assert_int_equal(multicasts(), 0);
		/* three of four; one twice */
		for (unsigned k = 0; k < 3; k++) {
			order(&children[k], JOIN, g);
			assert_int_equal(children[k].result, 0);
		}
		order(&children[0], JOIN, g);
		send_to(&path, &everyone, 1, 0, 16, 200);
		for (unsigned k = 0; k < 3; k++)
			attend(&children[k].multicast, 16);
		pause_ms(20);
		for (unsigned k = 0; k < 3; k++)
			assert_int_equal(children[k].multicast, 16);
		assert_int_equal(children[3].multicast, 0);
		/* unicast comes once, as before */
		send_to_each(g == IPV6_GROUP, 2, 64);
		pause_ms(20);
		for (unsigned k = 0; k < 4; k++) {
			assert_int_equal(children[k].have, 32 + children[k].multicast);
			assert_int_equal(children[k].wrong, 0);
			assert_int_equal(children[k].unexpected_group, 0);
		}
		/* one leave of two leaves the first in, one of one puts the second out */
		order(&children[0], LEAVE, g);
		order(&children[1], LEAVE, g);
		send_to(&path, &everyone, 1, 0, 16, 200);
		attend(&children[0].multicast, 32);
		attend(&children[2].multicast, 32);
		pause_ms(20);
		assert_int_equal(children[0].multicast, 32);
		assert_int_equal(children[1].multicast, 16);
		assert_int_equal(children[2].multicast, 32);
		poll_for(wire, to_parent, &ours, &ours, 1, 20);
		assert_int_equal(ours, 0);
		end();
	}
}

static void no_groups(void **state)
{
	union ibv_gid unicast = gid_of("::ffff:127.0.0.1"), v6 = gid_of("fd00::1");
	struct urxe_link_addr group;

	begin(0);
	urxe_roce_link.group(&group, &unicast);
	assert_int_equal(urxe_wire_mcast_join(wire, dev->ports, &group), -EINVAL);
	urxe_roce_link.group(&group, &v6);
	assert_int_equal(urxe_wire_mcast_join(wire, dev->ports, &group), -EINVAL);
	end();
}

/* Linux does not loop IPv6 multicast back on lo: a pair of virtual Ethernets is made for it. */
static struct urxe_device *make_ethernet(void)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];
	int n;

	assert_int_equal(system("ip link add urxet0 type veth peer name urxet1 && "
				"ip link set urxet0 up && ip link set urxet1 up && "
				"ip -6 addr add 2001:db8::1/64 dev urxet0 nodad"),
			 0);
	pause_ms(100); /* the carrier comes up */
	n = urxe_devices(devs, URXE_MAX_DEVICES);
	for (int k = 0; k < n; k++)
		if (!strcmp(devs[k]->ports->netdev.name, "urxet0"))
			return devs[k];
	fail_msg("no device on urxet0");
	return NULL;
}

static int setup(void **state)
{
	/* never in a namespace that is somebody else's */
	if (own_network()) {
		setenv("URXE_DEVICES", "urxe0=lo,urxe1=urxet0", 1);
		ethernet = make_ethernet();
	}
	dev = lo_device();
	children = mmap(NULL, MAX_CHILDREN * sizeof(*children), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	strays = mmap(NULL, sizeof(*strays), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	return children == MAP_FAILED || strays == MAP_FAILED;
}

/* An argument names the tests to run: a pattern. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steering),	 cmocka_unit_test(forwarding),
		cmocka_unit_test(mixed_batches), cmocka_unit_test(sixty_four),
		cmocka_unit_test(death),	 cmocka_unit_test(leaving),
		cmocka_unit_test(forked),	 cmocka_unit_test(multicast),
		cmocka_unit_test(no_groups),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, setup, NULL);
}
