/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacached's configuration file, as tables, and the addresses behind IPoIB.
 */
#include "sacache_test.h"

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if_arp.h>

#include "daemons/sacached/addresses.h"
#include "daemons/sacached/config.h"
#include "daemons/common/log.h"

static void a_file_says_what_differs_from_the_defaults(void **state)
{
	static const char text[] = "# a comment\n\n"
				   "policy always\n"
				   "  drop\tyes  # and why\r\n"
				   "rate 1000\n"
				   "port mlx5_0:2\nport mlx5_1\n"
				   "tcp loopback\n"
				   "hosts /etc/my hosts\n"
				   "state_file\n"
				   "log_level debug\n";
	struct sacached_config config;
	char error[CONFIG_ERROR_LEN];

	sacached_config_init(&config);
	assert_int_equal(config.cache.policy, SACACHE_AUTO);
	assert_int_equal(config_parse(&sacached_config_table, &config, text, "file", error), 0);
	assert_int_equal(config.cache.policy, SACACHE_ALWAYS);
	assert_true(config.cache.drop);
	assert_int_equal(config.cache.rate, 1000);
	assert_int_equal(config.nports, 2);
	assert_string_equal(config.ports[0].ca, "mlx5_0");
	assert_int_equal(config.ports[0].portnum, 2);
	assert_int_equal(config.ports[1].portnum, 0);
	assert_int_equal(config.tcp, CONFIG_TCP_LOOPBACK);
	assert_string_equal(config.hosts, "/etc/my hosts");
	assert_string_equal(config.state_file, "");
	assert_int_equal(config.log_level, LOG_DEBUG);
	assert_int_equal(config_option(&sacached_config_table, &config, "policy never", error), 0);
	assert_int_equal(config.cache.policy, SACACHE_NEVER);
}

static void an_error_says_where_it_is_and_what_is_right(void **state)
{
	static const struct {
		const char *text, *error;
	} rows[] = {
		{"\npolice auto", "file:2: unknown key \"police\": see sacached.conf(5)"},
		{"policy sometimes",
		 "file:1: policy is one of: auto always never, not \"sometimes\""},
		{"policy", "file:1: policy is one of: auto always never, not \"\""},
		{"window 257", "file:1: window is a number from 1 to 256, not \"257\""},
		{"window -1", "file:1: window is a number from 1 to 256, not \"-1\""},
		{"rate 99999999999999999999",
		 "file:1: rate is a number from 0 to 1000000, not \"99999999999999999999\""},
		{"rate 10 20", "file:1: rate is a number from 0 to 1000000, not \"10 20\""},
		{"drop maybe", "file:1: drop is yes or no, not \"maybe\""},
		{"port :1",
		 "file:1: \":1\" is no port: write the device, or device:number, as in mlx5_0:1"},
		{"port mlx5_0:0", "file:1: \"mlx5_0:0\" is no port: write the device, or "
				  "device:number, as in mlx5_0:1"},
		{"ibacm_dir", "file:1: ibacm_dir needs a value"},
		{"user 0123456789012345678901234567890123456789",
		 "file:1: user is longer than 31 characters"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct sacached_config config;
		char error[CONFIG_ERROR_LEN] = "";

		sacached_config_init(&config);
		assert_int_equal(config_parse(&sacached_config_table, &config, rows[i].text, "file",
					      error),
				 -EINVAL);
		assert_string_equal(error, rows[i].error);
	}
}

static void only_some_settings_change_at_run_time(void **state)
{
	struct sacached_config config, fresh;
	char error[CONFIG_ERROR_LEN];

	log_level = LOG_EMERG;
	sacached_config_init(&config);
	sacached_config_init(&fresh);
	assert_int_equal(config_parse(&sacached_config_table, &fresh,
				      "deadline 100\npolicy never\nhosts /h\nport a", "f", error),
			 0);
	config_update(&sacached_config_table, &config, &fresh);
	assert_int_equal(config.deadline, 100);
	assert_string_equal(config.hosts, "/h");
	assert_int_equal(config.cache.policy, SACACHE_AUTO);
	assert_int_equal(config.nports, 0);
}

/* getifaddrs() has room for 20 bytes of link-layer address. */
struct link {
	struct ifaddrs entry;
	union {
		struct sockaddr_ll ll;
		uint8_t room[64];
	} addr, broadcast;
};

static void make_link(struct link *link, char *name, uint16_t type, uint8_t length, void *next)
{
	uint8_t *hardware = link->addr.room + offsetof(struct sockaddr_ll, sll_addr);
	uint8_t *broadcast = link->broadcast.room + offsetof(struct sockaddr_ll, sll_addr);

	memset(link, 0, sizeof(*link));
	link->entry = (struct ifaddrs){.ifa_next = next, .ifa_name = name};
	link->entry.ifa_addr = (struct sockaddr *)&link->addr;
	link->entry.ifa_broadaddr = (struct sockaddr *)&link->broadcast;
	link->addr.ll.sll_family = AF_PACKET;
	link->addr.ll.sll_hatype = type;
	link->addr.ll.sll_halen = link->broadcast.ll.sll_halen = length;
	for (unsigned i = 0; i < 20; i++)
		hardware[i] = 100 + i;
	memcpy(broadcast, "\0\xff\xff\xff\xff\x12\x40\x1b\x80\x01", 10);
}

static void addresses_behind_ipoib_have_the_gid_and_partition_of_their_netdev(void **state)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	struct link ib, ethernet;
	struct ifaddrs none = {.ifa_name = "tun0"};
	struct ifaddrs on_ethernet = {&none, "eth0", 0, (struct sockaddr *)&v4};
	struct ifaddrs second = {&on_ethernet, "ib0", 0, (struct sockaddr *)&v6};
	struct ifaddrs first = {&second, "ib0", 0, (struct sockaddr *)&v4};
	struct local_address *local;
	struct in6_addr mapped;
	unsigned count;

	make_link(&ib, "ib0", ARPHRD_INFINIBAND, 20, &first);
	make_link(&ethernet, "eth0", ARPHRD_ETHER, 6, &ib.entry);
	local = addresses_of_host(&ethernet.entry, &count);
	assert_non_null(local);
	assert_int_equal(count, 2);
	inet_pton(AF_INET6, "::ffff:10.0.0.1", &mapped);
	assert_memory_equal(&local[0].ip, &mapped, 16);
	assert_int_equal(local[0].pkey, 0x8001);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(local[0].gid[i], 104 + i);
	assert_memory_equal(&local[1].ip, &in6addr_loopback, 16);
	free(local);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_says_what_differs_from_the_defaults),
		cmocka_unit_test(an_error_says_where_it_is_and_what_is_right),
		cmocka_unit_test(only_some_settings_change_at_run_time),
		cmocka_unit_test(addresses_behind_ipoib_have_the_gid_and_partition_of_their_netdev),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
