/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IP addresses to GIDs: lines of a hosts file and neighbours in netlink messages, as tables.
 */
#include "sacache_test.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <unistd.h>

#include "libsacache/hosts.h"

static struct in6_addr address(const char *text)
{
	struct in6_addr addr;
	char mapped[64];

	snprintf(mapped, sizeof(mapped), strchr(text, ':') ? "%s" : "::ffff:%s", text);
	assert_int_equal(inet_pton(AF_INET6, mapped, &addr), 1);
	return addr;
}

/* Files; what 10.0.0.1 is in them (NULL: not there), or the line that is wrong. */
static const struct {
	const char *text;
	const char *gid;
	unsigned line;
} files[] = {
	{"", NULL, 0},
	{"\n\n# nothing\n", NULL, 0},
	{"10.0.0.1 fe80::1", "fe80::1", 0},
	{"10.0.0.1\tfe80::1\n", "fe80::1", 0},
	{"  10.0.0.1   fe80::1  # the first\n", "fe80::1", 0},
	{"10.0.0.1 fe80::1\r\n10.0.0.2 fe80::2\r\n", "fe80::1", 0},
	{"10.0.0.2 fe80::2\n10.0.0.1 fe80::1\n10.0.0.0 fe80::3\n", "fe80::1", 0},
	{"fd00::1 fe80::1\n", NULL, 0},
	{"::ffff:10.0.0.1 fe80::1\n", "fe80::1", 0},
	{"10.0.0.1\n", NULL, 1},
	{"# one\n10.0.0.1 fe80::1 more\n", NULL, 2},
	{"10.0.0.1 fe80::1\n\n10.0.0.256 fe80::1\n", NULL, 3},
	{"10.0.0.1 10.0.0.2\n", NULL, 1},
	{"10.0.0.1 #fe80::1\n", NULL, 1},
	{"10.0.0.1 fe80:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001\n", NULL, 1},
};

static void hosts_files_are_read_line_by_line(void **state)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		struct in6_addr addr = address("10.0.0.1");
		const struct sa_host *host;
		struct sa_hosts *hosts;
		unsigned line = 0;
		int ret = sa_hosts_parse(files[i].text, &hosts, &line);

		assert_int_equal(ret, files[i].line ? -EINVAL : 0);
		assert_int_equal(line, files[i].line);
		if (ret)
			continue;
		host = sa_hosts_find(hosts, &addr);
		if (!files[i].gid) {
			assert_null(host);
		} else {
			struct in6_addr gid = address(files[i].gid);

			assert_non_null(host);
			assert_memory_equal(host->gid, &gid, 16);
		}
		sa_hosts_free(hosts);
	}
}

static void a_bad_hosts_file_leaves_the_good_one_in_place(void **state)
{
	struct sacache *cache = test_cache(SACACHE_AUTO, false, 10);
	struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = address("fd00:77::1")};
	char path[] = "/tmp/sacache-hosts-XXXXXX";
	int fd = mkstemp(path);
	unsigned line = 0;
	uint8_t gid[16];

	assert_true(fd >= 0);
	assert_int_equal(sacache_ip_to_gid(cache, (struct sockaddr *)&addr, gid), -ENODATA);
	assert_int_equal(dprintf(fd, "fd00:77::1 fe80::7\n"), 19);
	assert_int_equal(sacache_hosts_load(cache, path, &line), 0);
	assert_int_equal(sacache_ip_to_gid(cache, (struct sockaddr *)&addr, gid), 0);
	assert_int_equal(gid[15], 7);
	assert_int_equal(dprintf(fd, "nonsense\n"), 9);
	assert_int_equal(sacache_hosts_load(cache, path, &line), -EINVAL);
	assert_int_equal(line, 2);
	assert_int_equal(sacache_ip_to_gid(cache, (struct sockaddr *)&addr, gid), 0);
	close(fd);
	unlink(path);
	assert_int_equal(sacache_hosts_load(cache, path, &line), -ENOENT);
	assert_int_equal(sacache_hosts_load(cache, "/", &line), -EISDIR);
	addr.sin6_family = AF_UNIX;
	assert_int_equal(sacache_ip_to_gid(cache, (struct sockaddr *)&addr, gid), -EAFNOSUPPORT);
	sacache_destroy(cache);
}

/* A neighbour as the kernel reports it. */
struct neighbour {
	const char *addr;
	uint16_t state;
	unsigned hardware; /* bytes of its link-layer address */
};

static size_t add_attribute(uint8_t *p, uint16_t type, const void *data, size_t length)
{
	struct rtattr attr = {.rta_type = type, .rta_len = RTA_LENGTH(length)};

	memcpy(p, &attr, sizeof(attr));
	memcpy(p + RTA_LENGTH(0), data, length);
	return RTA_ALIGN(attr.rta_len);
}

static size_t add_neighbour(uint8_t *p, const struct neighbour *neighbour)
{
	struct in6_addr addr = address(neighbour->addr);
	bool v4 = IN6_IS_ADDR_V4MAPPED(&addr);
	struct ndmsg message = {.ndm_family = v4 ? AF_INET : AF_INET6,
				.ndm_state = neighbour->state};
	struct nlmsghdr header = {.nlmsg_type = RTM_NEWNEIGH};
	/* Flags, QPN, then the GID. */
	uint8_t hardware[20] = {0x80, 0, 0, 0x48, 0xfe, 0x80};
	size_t at = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(message));

	hardware[19] = addr.s6_addr[15];
	memcpy(p + NLMSG_HDRLEN, &message, sizeof(message));
	at += v4 ? add_attribute(p + at, NDA_DST, &addr.s6_addr[12], 4)
		 : add_attribute(p + at, NDA_DST, &addr, 16);
	if (neighbour->hardware)
		at += add_attribute(p + at, NDA_LLADDR, hardware, neighbour->hardware);
	header.nlmsg_len = at;
	memcpy(p, &header, sizeof(header));
	return NLMSG_ALIGN(at);
}

static const struct neighbour neighbours[] = {
	{"10.0.0.1", NUD_REACHABLE, 6}, /* Ethernet */
	{"10.0.0.2", NUD_REACHABLE, 20}, {"10.0.0.3", NUD_STALE, 20},
	{"10.0.0.4", NUD_FAILED, 20},	 {"10.0.0.5", NUD_INCOMPLETE, 0},
	{"fe80::6", NUD_PERMANENT, 20},
};
static const bool known[] = {false, true, true, false, false, true};

static void neighbours_behind_ipoib_have_gids(void **state)
{
	const unsigned count = sizeof(neighbours) / sizeof(neighbours[0]);
	struct nlmsghdr done = {.nlmsg_len = NLMSG_HDRLEN, .nlmsg_type = NLMSG_DONE};
	uint8_t buf[1024] __attribute__((aligned(4)));
	size_t length = 0;

	for (unsigned i = 0; i < count; i++)
		length += add_neighbour(buf + length, &neighbours[i]);
	for (unsigned i = 0; i < count; i++) {
		struct in6_addr addr = address(neighbours[i].addr);
		uint8_t gid[16];
		bool found = false;

		assert_int_equal(sa_neighbours_parse(buf, length, &addr, gid, &found),
				 SA_NEIGHBOURS_MORE);
		assert_int_equal(found, known[i]);
		if (found)
			assert_int_equal(gid[15], addr.s6_addr[15]);
		/* Cut anywhere it is no neighbour, and no access beyond the end. */
		for (size_t cut = 0; cut < length; cut++) {
			uint8_t *copy = malloc(cut + 1);

			memcpy(copy, buf, cut);
			found = false;
			sa_neighbours_parse(copy, cut, &addr, gid, &found);
			free(copy);
		}
	}
	memcpy(buf + length, &done, sizeof(done));
	{
		struct in6_addr addr = address("10.0.0.9");
		uint8_t gid[16];
		bool found = false;

		assert_int_equal(sa_neighbours_parse(buf, length + sizeof(done), &addr, gid,
						     &found),
				 SA_NEIGHBOURS_END);
		assert_false(found);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts_files_are_read_line_by_line),
		cmocka_unit_test(a_bad_hosts_file_leaves_the_good_one_in_place),
		cmocka_unit_test(neighbours_behind_ipoib_have_gids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
