/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the wire's tests share: UDP as the only wire, a network namespace of their own, so that port
 * 4791 and its loopback traffic disturb nobody, a device on lo, and a wire with a place to put what
 * arrives.
 */
#ifndef URXE_TESTS_WIRE_TEST_H
#define URXE_TESTS_WIRE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <net/if.h>
#include <net/route.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "host/libc.h"
#include "host/segment.h"
#include "wire/private.h"

#define LAST_SLOT_SEEN 256

__attribute__((format(printf, 2, 3))) static inline void write_line(const char *path,
								    const char *fmt, ...)
{
	FILE *f = fopen(path, "w");
	va_list ap;

	assert_non_null(f);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	assert_int_equal(fclose(f), 0);
}

/* root of the user namespace that was just made, so that programs have the rights that we have. */
static inline void be_root(uid_t uid, gid_t gid)
{
	write_line("/proc/self/setgroups", "deny");
	write_line("/proc/self/uid_map", "0 %u 1", uid);
	write_line("/proc/self/gid_map", "0 %u 1", gid);
}

/* A namespace with nothing but lo, up. Where namespaces are forbidden, the one we are in will do:
 * false. */
static inline bool own_network(void)
{
	struct ifreq req = {.ifr_name = "lo"};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int fd;

	urxe_libc_init();
	setenv("URXE_WIRE", "udp", 1);
	if (unshare(uid ? CLONE_NEWUSER | CLONE_NEWNET : CLONE_NEWNET)) {
		setenv("URXE_DEVICES", "urxe0=lo", 1); /* which has none beside other interfaces */
		return false;
	}
	if (uid)
		be_root(uid, gid);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &req), 0);
	req.ifr_flags |= IFF_UP;
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &req), 0);
	close(fd);
	return true;
}

static char host_folder[] = "/tmp/urxe-test-XXXXXX";

/* A network and a folder of its own, as a host has them. False: there is no
 * test without, as TAP says. */
static inline bool own_host(void)
{
	if (!own_network()) {
		printf("1..0 # SKIP no network namespace\n");
		return false;
	}
	if (!mkdtemp(host_folder))
		abort();
	setenv("URXE_RUNTIME_DIR", host_folder, 1);
	return true;
}

/* What main() returns after its tests. */
static inline int leave_host(int result)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", host_folder);
	return system(command) ? 1 : result;
}

static inline union ibv_gid gid_of(const char *text)
{
	union ibv_gid gid;

	assert_int_equal(inet_pton(AF_INET6, text, gid.raw), 1);
	return gid;
}

/* The socket by which other processes of the host reach this one (host/segment_socket.h). */
static inline struct sockaddr_un own_socket(struct urxe_segment *seg)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char pattern[128];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s.s%u-*", urxe_segment_path(seg),
		 urxe_segment_slot(seg));
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_int_equal(found.gl_pathc, 1);
	snprintf(name.sun_path, sizeof(name.sun_path), "%s", found.gl_pathv[0]);
	globfree(&found);
	return name;
}

/* The device on lo as the host floor finds it. */
static inline struct urxe_device *lo_device(void)
{
	struct urxe_device *devs[URXE_MAX_DEVICES];
	int n = urxe_devices(devs, URXE_MAX_DEVICES);

	for (int k = 0; k < n; k++)
		if (!strcmp(devs[k]->ports->netdev.name, "lo"))
			return devs[k];
	fail_msg("no device on lo (%d devices)", n);
	abort();
}

/* A path over RoCE, as urxe_roce_path() makes it. */
static inline int path_between(struct urxe_path *path, const struct urxe_device *dev,
			       const union ibv_gid *sgid, const union ibv_gid *dgid, uint8_t tclass,
			       uint8_t hops, uint32_t flow_label, uint32_t hash)
{
	const struct ibv_global_route grh = {.dgid = *dgid,
					     .flow_label = flow_label,
					     .hop_limit = hops,
					     .traffic_class = tclass};

	return urxe_roce_path(path, dev->ports, sgid, &grh, hash);
}

static inline void pause_ms(unsigned ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&ts, NULL);
}

/* Writes the BTH of a SEND ONLY and returns the packet ready for its payload. */
static inline void fill_packet(struct urxe_tx_packet *pkt, uint32_t qpn, uint32_t psn,
			       const struct iovec *iov, unsigned iovcnt)
{
	memset(pkt, 0, sizeof(*pkt));
	for (unsigned k = 0; k < iovcnt; k++)
		pkt->payload_len += iov[k].iov_len;
	pkt->iov = iov;
	pkt->iovcnt = iovcnt;
	pkt->header_len = sizeof(struct urxe_bth);
	urxe_bth_fill((struct urxe_bth *)pkt->header, URXE_RC_SEND_ONLY, URXE_BTH_MIGREQ,
		      urxe_pad_of(pkt->payload_len), URXE_PKEY_DEFAULT, qpn, false, psn);
}

/* Polls until want more packets were handed up or ms have passed without one. */
static inline void poll_for(struct urxe_wire *wire, urxe_wire_rx_fn *fn, void *arg,
			    const unsigned *have, unsigned want, unsigned ms)
{
	uint64_t quiet = urxe_now();
	unsigned before = *have;

	while (*have < want) {
		uint64_t now = urxe_now();

		urxe_wire_poll(wire, 64, now, fn, arg);
		if (*have != before)
			quiet = now;
		else if (now - quiet > ms * 1000000ull)
			return;
		before = *have;
	}
}

#endif
