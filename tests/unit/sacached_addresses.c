/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What sacached keeps of IP addresses: the kernel's tables and its news are this test's, which has
 * no netdev of its own.
 */
#include "sacache_test.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/sacached/addresses.h"

static struct sacached d;
static pthread_t loop_thread;

/* The kernel's tables, and whether the thread that reads them has to wait. */
static struct neighbour table[100000];
static size_t table_size;
static atomic_bool held, reading;
static atomic_uint reads;
static atomic_int read_status;
static bool read_in_loop;

int __wrap_addresses_read_local(struct local_address **local, unsigned *count);
int __wrap_addresses_read_local(struct local_address **local, unsigned *count)
{
	*local = calloc(1, sizeof(**local));
	*count = 0;
	return 0;
}

int __wrap_neighbours_read(struct neighbour **neighbours, size_t *count);
int __wrap_neighbours_read(struct neighbour **neighbours, size_t *count)
{
	read_in_loop = pthread_equal(pthread_self(), loop_thread);
	if (!read_status) {
		*count = table_size;
		*neighbours = malloc(sizeof(table));
		memcpy(*neighbours, table, table_size * sizeof(table[0]));
	}
	reads++;
	reading = true;
	while (held)
		usleep(100);
	reading = false;
	return read_status;
}

/* The hosts file knows fd00::N alone. */
int __wrap_sacache_hosts_lookup(struct sacache *cache, const struct sockaddr *addr,
				uint8_t gid[16]);
int __wrap_sacache_hosts_lookup(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16])
{
	const struct in6_addr *ip = &((const struct sockaddr_in6 *)addr)->sin6_addr;

	if (ip->s6_addr[0] != 0xfd)
		return -ENODATA;
	test_gid(ip->s6_addr[15], gid);
	return 0;
}

/* It reads the kernel's whole table. */
int __wrap_sacache_ip_to_gid(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16]);
int __wrap_sacache_ip_to_gid(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16])
{
	fail_msg("a question in the loop waits for the kernel");
	return -ENODATA;
}

/* What the kernel says next; a length of 0: that some was lost. */
static uint8_t news[256];
static size_t news_length;

/* Sanitizers refer to it. */
__attribute__((visibility("default"))) ssize_t __wrap_recv(int fd, void *buf, size_t size,
							   int flags);
ssize_t __wrap_recv(int fd, void *buf, size_t size, int flags)
{
	if (!news_length) {
		errno = ENOBUFS;
		return -1;
	}
	memcpy(buf, news, news_length);
	return news_length;
}

/* The one event of a netlink socket. */
static int activate(const struct event_base *base, const struct event *event, void *arg)
{
	socklen_t size = sizeof(int);
	int domain = 0;

	getsockopt(event_get_fd(event), SOL_SOCKET, SO_DOMAIN, &domain, &size);
	if (domain == AF_NETLINK)
		event_active((struct event *)event, EV_READ, 0);
	return 0;
}

static void hear(void)
{
	event_base_foreach_event(d.base, activate, NULL);
	event_base_loop(d.base, EVLOOP_NONBLOCK);
}

/* A neighbour at 10.0.0.N with a link-layer address of that size, whose GID is fe80::GID. */
static void hear_of(uint16_t type, uint8_t n, uint16_t state, uint8_t size, uint8_t gid)
{
	struct nlmsghdr *header = (void *)news;
	struct ndmsg *message = NLMSG_DATA(header);
	struct rtattr *attr = (void *)((uint8_t *)message + NLMSG_ALIGN(sizeof(*message)));

	memset(news, 0, sizeof(news));
	message->ndm_family = AF_INET;
	message->ndm_state = state;
	attr->rta_type = NDA_DST;
	attr->rta_len = RTA_LENGTH(4);
	memcpy(RTA_DATA(attr), (uint8_t[4]){10, 0, 0, n}, 4);
	attr = (void *)((uint8_t *)attr + RTA_SPACE(4));
	attr->rta_type = NDA_LLADDR;
	attr->rta_len = RTA_LENGTH(size);
	if (size == 20)
		test_gid(gid, (uint8_t *)RTA_DATA(attr) + 4);
	header->nlmsg_type = type;
	header->nlmsg_len = (uint8_t *)attr + RTA_SPACE(size) - news;
	news_length = header->nlmsg_len;
	hear();
}

static struct in6_addr ip_of(uint8_t n)
{
	return (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff, 10, 0, 0, n}};
}

/* The last byte of the GID of 10.0.0.N, 0: it has none. */
static unsigned gid_of(uint8_t n)
{
	struct in6_addr ip = ip_of(n);
	uint8_t gid[16];

	return addresses_gid(d.addresses, &ip, gid) ? 0 : gid[15];
}

/* The kernel's table has it, and has told nobody. */
static void table_has(uint8_t n, uint8_t gid)
{
	table[table_size].ip = ip_of(n);
	test_gid(gid, table[table_size++].gid);
}

static void news_are_lost(void)
{
	news_length = 0;
	hear();
}

/* Turns the loop until the thread has ended, and what it read is taken. */
static void until_read(unsigned times)
{
	held = false;
	for (unsigned i = 0; i < 20000 && (reads < times || reading); i++) {
		usleep(100);
		event_base_loop(d.base, EVLOOP_NONBLOCK);
	}
	assert_int_equal(reads, times);
	/* Its end is an event after its last step. */
	for (unsigned i = 0; i < 20000 && addresses_busy(d.addresses); i++) {
		usleep(100);
		event_base_loop(d.base, EVLOOP_NONBLOCK);
	}
	assert_false(addresses_busy(d.addresses));
}

static int set_up(void **state)
{
	d = (struct sacached){.base = event_base_new()};
	loop_thread = pthread_self();
	table_size = 0;
	reads = 0;
	read_status = 0;
	held = false;
	assert_non_null(d.base);
	table_has(1, 1);
	table_has(2, 2);
	assert_int_equal(addresses_start(&d, &d.addresses), 0);
	assert_int_equal(reads, 1);
	return 0;
}

static int tear_down(void **state)
{
	held = false;
	addresses_stop(d.addresses);
	event_base_free(d.base);
	return 0;
}

static void neighbours_are_known_from_the_start(void **state)
{
	assert_int_equal(gid_of(1), 1);
	assert_int_equal(gid_of(2), 2);
}

static void a_client_that_asks_for_unknown_addresses_has_nothing_read(void **state)
{
	for (unsigned n = 3; n < 256; n++)
		assert_int_equal(gid_of(n), 0);
	assert_int_equal(reads, 1);
}

static void what_is_no_neighbour_is_looked_up_in_the_hosts_file(void **state)
{
	struct in6_addr ip = {.s6_addr = {0xfd, [15] = 9}};
	uint8_t gid[16];

	assert_int_equal(addresses_gid(d.addresses, &ip, gid), 0);
	assert_int_equal(gid[15], 9);
}

static void a_new_neighbour_is_known_at_once(void **state)
{
	assert_int_equal(gid_of(3), 0);
	hear_of(RTM_NEWNEIGH, 3, NUD_REACHABLE, 20, 77);
	assert_int_equal(gid_of(3), 77);
	assert_int_equal(reads, 1);
}

static void a_neighbour_that_moved_has_its_new_gid_at_once(void **state)
{
	hear_of(RTM_NEWNEIGH, 1, NUD_STALE, 20, 88);
	assert_int_equal(gid_of(1), 88);
	assert_int_equal(gid_of(2), 2);
}

static void a_neighbour_that_is_gone_is_known_no_more(void **state)
{
	static const struct {
		uint16_t type, state;
		uint8_t size;
	} rows[] = {
		{RTM_DELNEIGH, NUD_STALE, 20},
		{RTM_NEWNEIGH, NUD_FAILED, 20},
		{RTM_NEWNEIGH, NUD_INCOMPLETE, 20},
		{RTM_NEWNEIGH, NUD_REACHABLE, 6},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hear_of(RTM_NEWNEIGH, 1, NUD_REACHABLE, 20, 50 + i);
		assert_int_equal(gid_of(1), 50 + i);
		hear_of(rows[i].type, 1, rows[i].state, rows[i].size, 99);
		assert_int_equal(gid_of(1), 0);
	}
}

static void the_loop_serves_while_a_thread_reads_what_was_lost(void **state)
{
	held = true;
	table_size = 0;
	table_has(2, 22);
	table_has(4, 4);
	news_are_lost();
	assert_int_equal(gid_of(1), 1);
	assert_int_equal(gid_of(4), 0);
	until_read(2);
	assert_false(read_in_loop);
	assert_int_equal(gid_of(1), 0);
	assert_int_equal(gid_of(2), 22);
	assert_int_equal(gid_of(4), 4);
}

static void news_that_come_while_it_is_read_are_newer(void **state)
{
	held = true;
	news_are_lost();
	while (!reading)
		usleep(100);
	hear_of(RTM_NEWNEIGH, 1, NUD_REACHABLE, 20, 11);
	hear_of(RTM_DELNEIGH, 2, NUD_STALE, 20, 2);
	hear_of(RTM_NEWNEIGH, 3, NUD_REACHABLE, 20, 33);
	until_read(2);
	assert_int_equal(gid_of(1), 11);
	assert_int_equal(gid_of(2), 0);
	assert_int_equal(gid_of(3), 33);
}

static void what_is_lost_while_it_is_read_is_read_again(void **state)
{
	held = true;
	news_are_lost();
	while (!reading)
		usleep(100);
	table_has(5, 5);
	news_are_lost();
	until_read(3);
	assert_int_equal(gid_of(5), 5);
}

static void what_cannot_be_read_stays_as_it_was(void **state)
{
	log_level = LOG_EMERG;
	read_status = -EAGAIN;
	news_are_lost();
	until_read(2);
	assert_int_equal(gid_of(1), 1);
}

static void all_neighbours_are_kept(void **state)
{
	struct in6_addr ip = {.s6_addr = {0xfe, 0x80}};
	uint8_t gid[16];

	for (uint32_t i = 0; i < 100000; i++) {
		memcpy(&ip.s6_addr[12], &i, 4);
		table[i].ip = ip;
		memcpy(table[i].gid, &ip, 16);
	}
	table_size = 100000;
	news_are_lost();
	until_read(2);
	for (uint32_t i = 0; i < 100000; i++) {
		memcpy(&ip.s6_addr[12], &i, 4);
		assert_int_equal(addresses_gid(d.addresses, &ip, gid), 0);
		assert_memory_equal(gid, &ip, 16);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(neighbours_are_known_from_the_start),
		TEST(a_client_that_asks_for_unknown_addresses_has_nothing_read),
		TEST(what_is_no_neighbour_is_looked_up_in_the_hosts_file),
		TEST(a_new_neighbour_is_known_at_once),
		TEST(a_neighbour_that_moved_has_its_new_gid_at_once),
		TEST(a_neighbour_that_is_gone_is_known_no_more),
		TEST(the_loop_serves_while_a_thread_reads_what_was_lost),
		TEST(news_that_come_while_it_is_read_are_newer),
		TEST(what_is_lost_while_it_is_read_is_read_again),
		TEST(what_cannot_be_read_stays_as_it_was),
		TEST(all_neighbours_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
