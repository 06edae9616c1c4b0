/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What sacached keeps of IP addresses: libsacache's answers and the kernel's news are this test's, which has no
 * netdev of its own.
 */
#include "sacache_test.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "daemons/sacached/addresses.h"

static struct sacached d;
static unsigned asked;
static int result;

/* The n-th time that it is asked the GID is fe80::n. */
int __wrap_sacache_ip_to_gid(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16]);
int __wrap_sacache_ip_to_gid(struct sacache *cache, const struct sockaddr *addr, uint8_t gid[16])
{
	test_gid(++asked, gid);
	return result;
}

int __wrap_getifaddrs(struct ifaddrs **list);
int __wrap_getifaddrs(struct ifaddrs **list)
{
	*list = NULL;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list);
void __wrap_freeifaddrs(struct ifaddrs *list)
{
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

static int activate(const struct event_base *base, const struct event *event, void *arg)
{
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

/* The last byte of the GID of 10.0.0.N, 0: it has none. */
static unsigned gid_of(uint8_t n)
{
	struct in6_addr ip = {.s6_addr = {[10] = 0xff, [11] = 0xff, 10, 0, 0, n}};
	uint8_t gid[16];
	bool kept;

	return addresses_gid(d.addresses, &ip, gid, &kept) ? 0 : gid[15];
}

static int set_up(void **state)
{
	d = (struct sacached){.base = event_base_new()};
	asked = result = 0;
	assert_non_null(d.base);
	assert_int_equal(addresses_start(&d, &d.addresses), 0);
	return 0;
}

static int tear_down(void **state)
{
	addresses_stop(d.addresses);
	event_base_free(d.base);
	return 0;
}

static void an_address_is_asked_for_once(void **state)
{
	assert_int_equal(gid_of(1), 1);
	assert_int_equal(gid_of(1), 1);
	assert_int_equal(gid_of(2), 2);
	assert_int_equal(gid_of(1), 1);
	assert_int_equal(asked, 2);
	addresses_forget(d.addresses);
	assert_int_equal(gid_of(1), 3);
}

static void that_nobody_knows_it_is_remembered_until_the_kernel_does(void **state)
{
	result = -ENODATA;
	assert_int_equal(gid_of(1), 0);
	assert_int_equal(gid_of(1), 0);
	assert_int_equal(asked, 1);
	hear_of(RTM_NEWNEIGH, 1, NUD_REACHABLE, 20, 77);
	assert_int_equal(gid_of(1), 77);
	assert_int_equal(asked, 1);
}

static void a_neighbour_that_moved_has_its_new_gid_at_once(void **state)
{
	assert_int_equal(gid_of(1), 1);
	hear_of(RTM_NEWNEIGH, 1, NUD_STALE, 20, 88);
	assert_int_equal(gid_of(1), 88);
	assert_int_equal(gid_of(2), 2);
	assert_int_equal(asked, 2);
}

static void a_neighbour_that_is_gone_is_asked_for_again(void **state)
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

	assert_int_equal(gid_of(1), 1);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		hear_of(rows[i].type, 1, rows[i].state, rows[i].size, 99);
		assert_int_equal(gid_of(1), i + 2);
	}
}

static void all_is_asked_for_again_when_news_were_lost(void **state)
{
	assert_int_equal(gid_of(1), 1);
	assert_int_equal(gid_of(2), 2);
	news_length = 0;
	hear();
	assert_int_equal(gid_of(1), 3);
	assert_int_equal(gid_of(2), 4);
}

static void more_addresses_than_there_is_room_for_are_asked_for_again(void **state)
{
	struct in6_addr ip = {.s6_addr = {0xfd}};
	uint8_t gid[16];
	bool kept;

	for (unsigned round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 100000; i++) {
			memcpy(&ip.s6_addr[12], &i, 4);
			assert_int_equal(addresses_gid(d.addresses, &ip, gid, &kept), 0);
			assert_int_equal(addresses_gid(d.addresses, &ip, gid, &kept), 0);
			assert_true(kept);
		}
	}
	assert_true(asked > 150000 && asked <= 200000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_address_is_asked_for_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			that_nobody_knows_it_is_remembered_until_the_kernel_does, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(a_neighbour_that_moved_has_its_new_gid_at_once,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_neighbour_that_is_gone_is_asked_for_again, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(all_is_asked_for_again_when_news_were_lost, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			more_addresses_than_there_is_room_for_are_asked_for_again, set_up,
			tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
