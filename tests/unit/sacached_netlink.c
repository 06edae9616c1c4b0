/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The daemon's end of the kernel's path resolution, with a kernel and an SA of the test's (the
 * linker puts them in place of the system calls and of resolve_path()) and a clock that stands
 * until it is moved.
 */
#include "sacache_test.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "daemons/sacached/local_service.h"
#include "daemons/common/log.h"
#include "daemons/sacached/netlink.h"
#include "daemons/sacached/resolve.h"

#define MAX_ASKED 20000

static struct sacached d;
static int kernel = -1;	  /* the other end of the daemon's socket */
static int socket_error;  /* that socket() fails with */
static int receive_error; /* that the next recvfrom() fails with */
static uint32_t sender;	  /* port of who sends to the daemon; 0: the kernel */
static uint64_t now;	  /* ms */

/* What the SA was asked. */
static struct asked {
	struct sacache_key key;
	unsigned deadline;
	void (*done)(void *arg, int status, const struct sacache_path *path);
	void *arg;
	bool cancelled;
} asked[MAX_ASKED];
static unsigned nasked;

/* The linker takes them for what shared libraries call, too, and wants to see them. */
#pragma GCC visibility push(default)
int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t size);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
ssize_t __wrap_recvfrom(int fd, void *buf, size_t length, int flags, struct sockaddr *from,
			socklen_t *size);
ssize_t __wrap_sendto(int fd, const void *buf, size_t length, int flags, const struct sockaddr *to,
		      socklen_t size);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
struct resolve *
__wrap_resolve_path(struct sacached *daemon, const struct sacache_key *key, unsigned deadline,
		    void (*done)(void *arg, int status, const struct sacache_path *path),
		    void *arg);
void __wrap_resolve_cancel(struct resolve *resolve);
#pragma GCC visibility pop

int __wrap_socket(int domain, int type, int protocol)
{
	int ends[2];

	assert_int_equal(domain, AF_NETLINK);
	assert_int_equal(protocol, NETLINK_RDMA);
	if (socket_error) {
		errno = socket_error;
		return -1;
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends), 0);
	kernel = ends[1];
	return ends[0];
}

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t size)
{
	const struct sockaddr_nl *nl = (const struct sockaddr_nl *)addr;

	assert_int_equal(size, sizeof(*nl));
	assert_int_equal(nl->nl_pid, 0);
	assert_int_equal(nl->nl_groups, 4); /* group 3 */
	return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
	return 0;
}

ssize_t __wrap_recvfrom(int fd, void *buf, size_t length, int flags, struct sockaddr *from,
			socklen_t *size)
{
	struct sockaddr_nl *nl = (struct sockaddr_nl *)from;

	if (receive_error) {
		errno = receive_error;
		receive_error = 0;
		return -1;
	}
	nl->nl_pid = sender;
	return recv(fd, buf, length, flags);
}

/* To the kernel alone: not to the group, in which others listen. */
ssize_t __wrap_sendto(int fd, const void *buf, size_t length, int flags, const struct sockaddr *to,
		      socklen_t size)
{
	const struct sockaddr_nl *nl = (const struct sockaddr_nl *)to;

	assert_int_equal(nl->nl_pid, 0);
	assert_int_equal(nl->nl_groups, 0);
	return send(fd, buf, length, flags);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	*ts = (struct timespec){.tv_sec = now / 1000, .tv_nsec = now % 1000 * 1000000};
	return 0;
}

struct resolve *
__wrap_resolve_path(struct sacached *daemon, const struct sacache_key *key, unsigned deadline,
		    void (*done)(void *arg, int status, const struct sacache_path *path), void *arg)
{
	assert_true(nasked < MAX_ASKED);
	asked[nasked] = (struct asked){*key, deadline, done, arg, false};
	return (struct resolve *)&asked[nasked++];
}

void __wrap_resolve_cancel(struct resolve *resolve)
{
	((struct asked *)resolve)->cancelled = true;
}

/* Its GID is fe80::9; NULL: no address is known. */
static const char *known_address;

int __wrap_addresses_gid(struct addresses *addresses, const struct in6_addr *ip, uint8_t gid[16]);
int __wrap_addresses_gid(struct addresses *addresses, const struct in6_addr *ip, uint8_t gid[16])
{
	char text[INET6_ADDRSTRLEN];

	if (!known_address ||
	    strcmp(inet_ntop(AF_INET6, ip, text, sizeof(text)), known_address) != 0)
		return -ENODATA;
	test_gid(9, gid);
	return 0;
}

static int setup(void **state)
{
	struct sacache_attr attr;

	memset(&d, 0, sizeof(d));
	log_level = LOG_EMERG;
	sacache_attr_init(&attr, sizeof(attr));
	attr.policy = SACACHE_ALWAYS;
	assert_int_equal(sacache_create(&attr, &d.cache), 0);
	d.base = event_base_new();
	d.config.netlink = true;
	d.config.deadline = 4000;
	d.nports = 2;
	d.ports[1] = (struct sacached_port){
		.open = true, .ca = "ib0", .portnum = 2, .number = 3, .active = true};
	known_address = NULL;
	nasked = 0;
	now = 5000;
	sender = 0;
	socket_error = receive_error = 0;
	return 0;
}

static int teardown(void **state)
{
	netlink_stop(d.netlink);
	event_base_free(d.base);
	sacache_destroy(d.cache);
	if (kernel >= 0)
		close(kernel);
	kernel = -1;
	return 0;
}

static void start(void)
{
	assert_int_equal(netlink_start(&d, &d.netlink), 0);
}

static struct netlink_stats counted(void)
{
	struct netlink_stats stats;

	netlink_stats(d.netlink, &stats);
	return stats;
}

/* The kernel asks for the way to a GID, from a port of a device. */
static void ask(uint32_t seq, const char *device, uint8_t port, uint32_t n)
{
	struct {
		struct nlmsghdr header;
		struct rdma_ls_resolve_header family;
		uint8_t spare[2];
		struct nlattr attr;
		uint8_t dgid[16];
	} message = {
		.header = {.nlmsg_len = sizeof(message),
			   .nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_RESOLVE),
			   .nlmsg_flags = NLM_F_REQUEST,
			   .nlmsg_seq = seq},
		.family = {.port_num = port},
		.attr = {.nla_len = 20, .nla_type = RDMA_NLA_F_MANDATORY | LS_NLA_TYPE_DGID},
	};

	strcpy((char *)message.family.device_name, device);
	test_gid(n, message.dgid);
	assert_int_equal(send(kernel, &message, sizeof(message), 0), sizeof(message));
	event_base_loop(d.base, EVLOOP_NONBLOCK);
}

/* What the daemon has sent: its header is returned; the DLID of a path in *dlid. */
static struct nlmsghdr answer(unsigned *dlid)
{
	uint8_t buf[LS_MESSAGE_SIZE];
	struct nlmsghdr header;
	ssize_t got = recv(kernel, buf, sizeof(buf), 0);

	assert_true(got >= (ssize_t)sizeof(header));
	memcpy(&header, buf, sizeof(header));
	assert_int_equal(header.nlmsg_len, got);
	*dlid = got == 92 ? sa_get16(buf + 28 + 40) : 0;
	return header;
}

static bool silent(void)
{
	uint8_t byte;

	return recv(kernel, &byte, 1, 0) < 0 && errno == EAGAIN;
}

static void acknowledge(uint16_t op, int error)
{
	struct {
		struct nlmsghdr header;
		struct nlmsgerr error;
	} message = {
		.header = {.nlmsg_len = sizeof(message), .nlmsg_type = NLMSG_ERROR},
		.error = {.error = error, .msg.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_LS, op)},
	};

	assert_int_equal(send(kernel, &message, sizeof(message), 0), sizeof(message));
	event_base_loop(d.base, EVLOOP_NONBLOCK);
}

static void a_record_of_the_table_is_the_answer_at_once(void **state)
{
	struct sacache_key key = test_key(7);
	struct sacache_path path = test_path(7, 77, true);
	struct nlmsghdr header;
	unsigned dlid;

	key.port = 3;
	assert_int_equal(sacache_store(d.cache, &key, &path), 0);
	start();
	ask(100, "ib0", 2, 7);
	header = answer(&dlid);
	assert_int_equal(header.nlmsg_seq, 100);
	assert_int_equal(dlid, 77);
	assert_int_equal(nasked, 0);
	assert_int_equal(counted().answered, 1);
}

static void what_is_not_there_is_asked_for(void **state)
{
	struct sacache_path path = test_path(8, 88, true);
	unsigned dlid;

	start();
	ask(101, "ib0", 2, 8);
	assert_true(silent());
	assert_int_equal(nasked, 1);
	assert_int_equal(asked[0].key.port, 3);
	assert_int_equal(asked[0].key.dgid[15], 8);
	asked[0].done(asked[0].arg, 0, &path);
	assert_int_equal(answer(&dlid).nlmsg_seq, 101);
	assert_int_equal(dlid, 88);
}

static void the_kernel_hears_before_its_patience_ends(void **state)
{
	start();
	ask(1, "ib0", 2, 1);
	assert_int_equal(asked[0].deadline, 1500);
	d.config.deadline = 700;
	ask(2, "ib0", 2, 1);
	assert_int_equal(asked[1].deadline, 700);
}

static void its_patience_is_what_it_was_told(void **state)
{
	struct nlmsghdr header;
	unsigned dlid;

	d.config.kernel_timeout = 1000;
	start();
	header = answer(&dlid);
	assert_int_equal(header.nlmsg_type,
			 RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_SET_TIMEOUT));
	ask(1, "ib0", 2, 1);
	assert_int_equal(asked[0].deadline, 1500); /* it has not agreed yet */
	acknowledge(RDMA_NL_LS_OP_SET_TIMEOUT, 0);
	ask(2, "ib0", 2, 1);
	assert_int_equal(asked[1].deadline, 750);
}

static void an_sa_without_an_answer_is_an_error(void **state)
{
	struct nlmsghdr header;
	unsigned dlid;

	start();
	ask(5, "ib0", 2, 1);
	asked[0].done(asked[0].arg, -EHOSTUNREACH, NULL);
	header = answer(&dlid);
	assert_int_equal(header.nlmsg_seq, 5);
	assert_int_equal(header.nlmsg_flags, RDMA_NL_LS_F_ERR);
	assert_int_equal(counted().errors, 1);
}

static void an_answer_that_comes_too_late_is_not_sent(void **state)
{
	struct sacache_path path = test_path(1, 11, true);

	start();
	ask(5, "ib0", 2, 1);
	now += 2000;
	asked[0].done(asked[0].arg, 0, &path);
	assert_true(silent());
	assert_int_equal(counted().late, 1);
	assert_int_equal(counted().answered, 0);
}

static void a_port_that_is_not_served_is_an_error(void **state)
{
	static const struct {
		const char *device;
		uint8_t port;
		bool active;
	} ports[] = {{"ib0", 1, true}, {"ib1", 2, true}, {"", 0, true}, {"ib0", 2, false}};
	unsigned dlid;

	start();
	for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		d.ports[1].active = ports[i].active;
		ask(i, ports[i].device, ports[i].port, 1);
		assert_int_equal(answer(&dlid).nlmsg_flags, RDMA_NL_LS_F_ERR);
	}
	assert_int_equal(nasked, 0);
}

static void nobody_but_the_kernel_is_served(void **state)
{
	start();
	sender = 4711;
	ask(1, "ib0", 2, 1);
	ask(2, "nowhere", 2, 1);
	acknowledge(RDMA_NL_LS_OP_RESOLVE, -EPERM);
	assert_true(silent());
	assert_int_equal(nasked, 0);
	assert_true(counted().listening);
}

/* Or each of its questions would wait for the whole time. */
static void a_kernel_that_takes_no_answers_is_left_alone(void **state)
{
	uint8_t byte;

	start();
	ask(1, "ib0", 2, 1);
	ask(2, "ib0", 2, 2);
	acknowledge(RDMA_NL_LS_OP_RESOLVE, -EPERM);
	assert_false(counted().listening);
	assert_true(asked[0].cancelled);
	assert_true(asked[1].cancelled);
	assert_true(send(kernel, &byte, 1, MSG_NOSIGNAL) < 0);
}

static void an_answer_that_is_refused_for_once_changes_nothing(void **state)
{
	start();
	acknowledge(RDMA_NL_LS_OP_RESOLVE, -EINVAL);
	assert_true(counted().listening);
}

static void lost_questions_are_counted_and_the_next_is_heard(void **state)
{
	start();
	receive_error = ENOBUFS;
	ask(1, "ib0", 2, 1);
	assert_int_equal(counted().overruns, 1);
	assert_int_equal(nasked, 1);
}

static void more_than_can_wait_are_the_kernels_to_ask(void **state)
{
	unsigned dlid;

	start();
	for (unsigned i = 0; i < 16384; i++)
		ask(i, "ib0", 2, i);
	assert_int_equal(nasked, 16384);
	assert_true(silent());
	ask(1, "ib0", 2, 1);
	assert_int_equal(nasked, 16384);
	assert_int_equal(answer(&dlid).nlmsg_flags, RDMA_NL_LS_F_ERR);
	asked[9].done(asked[9].arg, -EIO, NULL);
	answer(&dlid);
	ask(1, "ib0", 2, 1);
	assert_int_equal(nasked, 16385);
}

static void addresses_are_answered_with_their_gid(void **state)
{
	static const uint8_t question[40] = {
		40, 0, 0,  0,	 2,    0x10, 1, 0,    11, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0,
		20, 0, 10, 0x20, 0xfd, 0,    0, 0x77, 0,  0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3,
	};
	uint8_t buf[LS_MESSAGE_SIZE];

	start();
	assert_int_equal(send(kernel, question, sizeof(question), 0), sizeof(question));
	event_base_loop(d.base, EVLOOP_NONBLOCK);
	assert_int_equal(recv(kernel, buf, sizeof(buf), 0), 16);
	known_address = "fd00:77::3";
	assert_int_equal(send(kernel, question, sizeof(question), 0), sizeof(question));
	event_base_loop(d.base, EVLOOP_NONBLOCK);
	assert_int_equal(recv(kernel, buf, sizeof(buf), 0), 36);
	assert_int_equal(buf[35], 9);
	assert_int_equal(counted().addresses, 2);
}

static void a_kernel_without_rdma_is_no_reason_to_end(void **state)
{
	static const int errors[] = {EPROTONOSUPPORT, EPERM, EMFILE};

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		socket_error = errors[i];
		start();
		assert_false(counted().listening);
		netlink_stop(d.netlink);
		d.netlink = NULL;
	}
}

static void without_netlink_nothing_is_asked_of_the_kernel(void **state)
{
	d.config.netlink = false;
	start();
	assert_null(d.netlink);
	assert_false(counted().listening);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_record_of_the_table_is_the_answer_at_once, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_not_there_is_asked_for, setup, teardown),
		cmocka_unit_test_setup_teardown(the_kernel_hears_before_its_patience_ends, setup,
						teardown),
		cmocka_unit_test_setup_teardown(its_patience_is_what_it_was_told, setup, teardown),
		cmocka_unit_test_setup_teardown(an_sa_without_an_answer_is_an_error, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_answer_that_comes_too_late_is_not_sent, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_port_that_is_not_served_is_an_error, setup,
						teardown),
		cmocka_unit_test_setup_teardown(nobody_but_the_kernel_is_served, setup, teardown),
		cmocka_unit_test_setup_teardown(a_kernel_that_takes_no_answers_is_left_alone, setup,
						teardown),
		cmocka_unit_test_setup_teardown(an_answer_that_is_refused_for_once_changes_nothing,
						setup, teardown),
		cmocka_unit_test_setup_teardown(lost_questions_are_counted_and_the_next_is_heard,
						setup, teardown),
		cmocka_unit_test_setup_teardown(more_than_can_wait_are_the_kernels_to_ask, setup,
						teardown),
		cmocka_unit_test_setup_teardown(addresses_are_answered_with_their_gid, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_kernel_without_rdma_is_no_reason_to_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(without_netlink_nothing_is_asked_of_the_kernel,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
