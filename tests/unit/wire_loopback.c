/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * One wire that sends to itself over 127.0.0.1 and ::1: every class of payload size, gather
 * lists, batches that the kernel cuts and joins, and what travels in the IP header.
 */
#include "wire_test.h"

#define PAYLOADS 9000

static struct urxe_segment *seg;
static struct urxe_wire *wire;
static struct urxe_device *dev;
static uint8_t data[PAYLOADS + 4096];

struct inbox {
	unsigned have;
	unsigned wrong;
	uint32_t next_psn;
	struct urxe_rx_packet last;
	uint32_t lens[512];
	const struct urxe_path *path;
};

static uint32_t qpn;

/* Payload of PSN n starts at data[n % PAYLOADS]. */
static void take(const struct urxe_rx_packet *pkt, void *arg)
{
	struct inbox *in = arg;
	struct urxe_packet p;

	if (urxe_packet_parse(pkt->bytes, pkt->len, &p) || urxe_bth_qpn(p.bth) != qpn ||
	    urxe_bth_psn(p.bth) != in->next_psn ||
	    memcmp(p.payload, data + in->next_psn % PAYLOADS, p.payload_len))
		in->wrong++;
	for (uint32_t k = p.payload_len; p.bth && k % 4; k++)
		if (p.payload[k])
			in->wrong++;
	if (memcmp(&pkt->path.src, &in->path->src, 16) ||
	    memcmp(&pkt->path.dst, &in->path->dst, 16))
		in->wrong++;
	in->lens[in->have % 512] = p.payload_len;
	in->last = *pkt;
	in->next_psn++;
	in->have++;
}

static struct urxe_path path_to(const char *from, const char *to, uint8_t tclass, uint8_t hops)
{
	union ibv_gid sgid = gid_of(from), dgid = gid_of(to);
	struct urxe_path path;

	assert_int_equal(path_between(&path, dev, &sgid, &dgid, tclass, hops, 0x12345, qpn * 7), 0);
	return path;
}

static void send_sizes(const struct urxe_path *path, const uint32_t *sizes, unsigned n)
{
	struct urxe_tx_packet pkts[URXE_TX_BATCH];
	struct iovec iov[URXE_TX_BATCH];
	struct inbox in = {.path = path};

	for (unsigned k = 0; k < n; k++) {
		iov[k] = (struct iovec){data + k % PAYLOADS, sizes[k]};
		fill_packet(&pkts[k], qpn, k, &iov[k], 1);
	}
	assert_int_equal(urxe_wire_send(wire, path, pkts, n), n);
	poll_for(wire, take, &in, &in.have, n, 1000);
	assert_int_equal(in.have, n);
	assert_int_equal(in.wrong, 0);
	for (unsigned k = 0; k < n; k++)
		assert_int_equal(in.lens[k], sizes[k]);
}

static const char *const loops[][2] = {{"::ffff:127.0.0.1", "::ffff:127.0.0.1"}, {"::1", "::1"}};

static void each_size(void **state)
{
	static const uint32_t sizes[] = {0,    1,    2,	   3,	 4,    5,    7,	  8,   63,
					 64,   255,  256,  257,	 258,  259,  260, 511, 1023,
					 1024, 1025, 2048, 4093, 4094, 4095, 4096};

	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path path = path_to(loops[f][0], loops[f][1], 0, 0);

		for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
			send_sizes(&path, &sizes[k], 1);
	}
}

/* Runs of one size, runs with a shorter end, sizes that never match, and a long first packet. */
static void batches(void **state)
{
	uint32_t sizes[URXE_TX_BATCH];

	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path path = path_to(loops[f][0], loops[f][1], 0, 0);

		for (unsigned n = 1; n <= URXE_TX_BATCH; n++) {
			for (unsigned k = 0; k < n; k++)
				sizes[k] = 8;
			send_sizes(&path, sizes, n);
			for (unsigned k = 0; k < n; k++)
				sizes[k] = k + 1 < n ? 1024 : 13;
			send_sizes(&path, sizes, n);
			for (unsigned k = 0; k < n; k++)
				sizes[k] = k ? 4096 : 300;
			send_sizes(&path, sizes, n);
		}
		for (unsigned round = 0; round < 200; round++) {
			for (unsigned k = 0; k < URXE_TX_BATCH; k++)
				sizes[k] = rand() % 3 ? 1000 : rand() % 4097;
			send_sizes(&path, sizes, 1 + rand() % URXE_TX_BATCH);
		}
	}
}

static void gather_lists(void **state)
{
	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path path = path_to(loops[f][0], loops[f][1], 0, 0);

		for (unsigned round = 0; round < 300; round++) {
			struct urxe_tx_packet pkts[4];
			struct iovec iov[4][32];
			struct inbox in = {.path = &path};

			for (unsigned p = 0; p < 4; p++) {
				unsigned pieces = rand() % 33, at = p;

				for (unsigned k = 0; k < pieces; k++) {
					unsigned len = rand() % (rand() % 2 ? 129 : 5);

					iov[p][k] = (struct iovec){data + at, len};
					at += len;
				}
				fill_packet(&pkts[p], qpn, p, iov[p], pieces);
			}
			assert_int_equal(urxe_wire_send(wire, &path, pkts, 4), 4);
			poll_for(wire, take, &in, &in.have, 4, 1000);
			assert_int_equal(in.have, 4);
			assert_int_equal(in.wrong, 0);
		}
	}
}

static void ip_header_fields(void **state)
{
	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path path = path_to(loops[f][0], loops[f][1], 0x68 | 2, 17);
		uint32_t sizes[3] = {100, 100, 100};
		struct inbox in = {.path = &path};
		struct urxe_tx_packet pkt;
		struct iovec iov = {data, 1000};

		send_sizes(&path, sizes, 3);
		fill_packet(&pkt, qpn, 0, &iov, 1);
		assert_int_equal(urxe_wire_send(wire, &path, &pkt, 1), 1);
		poll_for(wire, take, &in, &in.have, 1, 1000);
		assert_int_equal(in.have, 1);
		assert_int_equal(in.last.path.roce.traffic_class, 0x6a);
		assert_int_equal(in.last.path.roce.hop_limit, 17);
		assert_int_equal(in.last.path.port, dev->ports->index);
		assert_false(in.last.path.multicast);
		assert_true(in.last.source_port >= 1024);

		path = path_to(loops[f][0], loops[f][1], 0, 0);
		in = (struct inbox){.path = &path};
		assert_int_equal(urxe_wire_send(wire, &path, &pkt, 1), 1);
		poll_for(wire, take, &in, &in.have, 1, 1000);
		assert_int_equal(in.have, 1);
		assert_int_equal(in.last.path.roce.traffic_class, 0);
		assert_int_equal(in.last.path.roce.hop_limit, 64);
	}
}

static void counters(void **state)
{
	struct urxe_path path = path_to(loops[0][0], loops[0][1], 0, 0);
	uint32_t sizes[10] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4};
	uint64_t before[URXE_NUM_COUNTERS], after[URXE_NUM_COUNTERS];

	urxe_segment_counters_sum(seg, dev->index, before);
	send_sizes(&path, sizes, 10);
	urxe_segment_counters_sum(seg, dev->index, after);
	assert_int_equal(after[URXE_CNT_SENT_PKTS] - before[URXE_CNT_SENT_PKTS], 10);
	assert_int_equal(after[URXE_CNT_RCVD_PKTS] - before[URXE_CNT_RCVD_PKTS], 10);
	assert_int_equal(after[URXE_CNT_SENT_BYTES] - before[URXE_CNT_SENT_BYTES], 200);
	assert_int_equal(after[URXE_CNT_RCVD_BYTES] - before[URXE_CNT_RCVD_BYTES], 200);
	assert_int_equal(after[URXE_CNT_ICRC_ERR], before[URXE_CNT_ICRC_ERR]);
	assert_int_equal(after[URXE_CNT_RCVD_BAD], before[URXE_CNT_RCVD_BAD]);
	assert_int_equal(after[URXE_CNT_FORWARDED], before[URXE_CNT_FORWARDED]);
}

/* What a stranger sends: too short, no multiple of 4, a wrong ICRC, and a QPN of nobody. */
static void strangers(void **state)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(URXE_UDP_PORT),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct urxe_path path = path_to(loops[0][0], loops[0][1], 0, 0);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	uint64_t before[URXE_NUM_COUNTERS], after[URXE_NUM_COUNTERS];
	struct inbox in = {.path = &path};
	uint8_t bytes[64] = {URXE_RC_SEND_ONLY};

	urxe_bth_fill((struct urxe_bth *)bytes, URXE_RC_SEND_ONLY, URXE_BTH_MIGREQ, 0, 0xffff, qpn,
		      0, 0);
	urxe_segment_counters_sum(seg, dev->index, before);
	for (unsigned len = 0; len < 64; len++)
		sendto(fd, bytes, len, 0, (struct sockaddr *)&to, sizeof(to));
	poll_for(wire, take, &in, &in.have, 1, 50);
	urxe_segment_counters_sum(seg, dev->index, after);
	close(fd);
	assert_int_equal(in.have, 0);
	/* 16, 20 … 60 can be packets; a datagram without a byte is counted as well. */
	assert_int_equal(after[URXE_CNT_ICRC_ERR] - before[URXE_CNT_ICRC_ERR], 12);
	assert_int_equal(after[URXE_CNT_RCVD_BAD] - before[URXE_CNT_RCVD_BAD], 64 - 12);
}

static void paths(void **state)
{
	union ibv_gid v4 = gid_of(loops[0][0]), v6 = gid_of("::1"), zero = {0};
	union ibv_gid nowhere = gid_of("::ffff:203.0.113.9"),
		      foreign = gid_of("::ffff:203.0.113.7");
	union ibv_gid group = gid_of("ff0e::ffff:239.1.2.3");
	struct urxe_path path;

	assert_int_equal(path_between(&path, dev, &v4, &v6, 0, 0, 0, 0), -EINVAL);
	assert_int_equal(path_between(&path, dev, &v6, &v4, 0, 0, 0, 0), -EINVAL);
	assert_int_equal(path_between(&path, dev, &zero, &v6, 0, 0, 0, 0), -EINVAL);
	assert_int_equal(path_between(&path, dev, &v6, &zero, 0, 0, 0, 0), -EINVAL);
	assert_int_equal(path_between(&path, dev, &v4, &nowhere, 0, 0, 0, 0), -EINVAL);
	assert_int_equal(path_between(&path, dev, &foreign, &v4, 0, 0, 0, 0), -EINVAL);
	assert_int_equal(path_between(&path, dev, &group, &v4, 0, 0, 0, 0), -EINVAL);
	assert_int_equal(path_between(&path, dev, &v4, &group, 0, 0, 0, 0), 0);
	group = gid_of("::ffff:239.1.2.3");
	assert_memory_equal(&path.dst, &group, 16);
	assert_int_equal(path.roce.hop_limit, 64);
}

/* A path whose source address the host does not have is an error of the path, not a full socket. */
static void broken_path(void **state)
{
	struct urxe_path path = path_to(loops[0][0], loops[0][1], 0, 0);
	struct urxe_tx_packet pkts[3];
	struct iovec iov = {data, 8};

	for (unsigned k = 0; k < 3; k++)
		fill_packet(&pkts[k], qpn, k, &iov, 1);
	assert_int_equal(inet_pton(AF_INET6, "::ffff:203.0.113.7", &path.src), 1);
	int ret = urxe_wire_send(wire, &path, pkts, 3);

	assert_true(ret == -EADDRNOTAVAIL || ret == -ENETUNREACH);
	/* and says nothing about the netdev's abilities */
	assert_false(urxe_wire_port(wire, &path)->no_gso);
}

/* ---- kernels and netdevs that refuse, put between the wire and the sockets ---- */

static struct urxe_libc real;
static int refuse_segments; /* the errno for sends with UDP_SEGMENT; 0: let them pass */
static unsigned room;	    /* datagrams or runs that the socket still takes */

static bool has_segments(const struct msghdr *msg)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR((struct msghdr *)msg, c))
		if (c->cmsg_level == 17 && c->cmsg_type == 103)
			return true;
	return false;
}

static ssize_t fussy_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	errno = room ? refuse_segments : EAGAIN;
	if (!room || (refuse_segments && has_segments(msg)))
		return -1;
	room--;
	return real.sendmsg(fd, msg, flags);
}

static int fussy_sendmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
	unsigned k = 0;

	while (k < n && fussy_sendmsg(fd, &msgs[k].msg_hdr, flags) >= 0)
		k++;
	return k ? (int)k : -1;
}

static void be_fussy(void)
{
	real = urxe_libc;
	urxe_libc.sendmsg = fussy_sendmsg;
	urxe_libc.sendmmsg = fussy_sendmmsg;
}

static void no_segmentation(void **state)
{
	static const int errors[] = {EIO, EINVAL};

	be_fussy();
	for (unsigned e = 0; e < 2; e++) {
		struct urxe_path path = path_to(loops[e][0], loops[e][1], 0, 0);
		uint32_t sizes[URXE_TX_BATCH];

		for (unsigned k = 0; k < URXE_TX_BATCH; k++)
			sizes[k] = k == 7 ? 900 : 100;
		urxe_wire_port(wire, &path)->no_gso = false;
		refuse_segments = errors[e];
		room = 1000;
		send_sizes(&path, sizes, URXE_TX_BATCH);
		/* for good: it is not tried again, each packet is a send of its own */
		assert_true(urxe_wire_port(wire, &path)->no_gso);
		refuse_segments = 0;
		room = URXE_TX_BATCH;
		send_sizes(&path, sizes, URXE_TX_BATCH);
		assert_int_equal(room, 0);
	}
	wire->port[dev->ports->index].no_gso = false;
	urxe_libc = real;
}

/* A socket that is full takes the first runs; the count says how many packets they were. */
static void full_socket(void **state)
{
	struct urxe_path path = path_to(loops[0][0], loops[0][1], 0, 0);
	struct iovec small = {data, 8}, large = {data, 100};
	struct urxe_tx_packet pkts[9];
	struct inbox in = {.path = &path};

	/* three runs of three: each ends with a shorter packet */
	for (unsigned k = 0; k < 9; k++) {
		fill_packet(&pkts[k], qpn, k, k % 3 == 2 ? &small : &large, 1);
		/* all carry the same bytes: the inbox looks at data + PSN */
		((struct urxe_bth *)pkts[k].header)->psn = 0;
	}
	be_fussy();
	refuse_segments = 0;
	for (unsigned runs = 0; runs < 4; runs++) {
		room = runs;
		assert_int_equal(urxe_wire_send(wire, &path, pkts, 9), runs * 3);
	}
	urxe_libc = real;
	poll_for(wire, take, &in, &in.have, 18, 1000);
	assert_int_equal(in.have, 18);
}

/* The descriptor is readable exactly when there is something. */
/* A batch of UC: what nobody acknowledges. */
static unsigned send_unacknowledged(const struct urxe_path *path, unsigned first, unsigned n)
{
	struct urxe_tx_packet pkts[URXE_TX_BATCH];
	struct iovec iov[URXE_TX_BATCH];

	for (unsigned k = 0; k < n; k++) {
		iov[k] = (struct iovec){data + (first + k) % PAYLOADS, 4096};
		fill_packet(&pkts[k], qpn, first + k, &iov[k], 1);
		urxe_bth_fill((struct urxe_bth *)pkts[k].header,
			      URXE_SERVICE_UC | URXE_RC_SEND_MIDDLE, URXE_BTH_MIGREQ, 0,
			      URXE_PKEY_DEFAULT, qpn, false, first + k);
		pkts[k].header_len = sizeof(struct urxe_bth);
	}
	return urxe_wire_send(wire, path, pkts, n);
}

/* UC has nothing that would keep it from filling a receive buffer; on one host nothing is lost. */
static void unacknowledged_ones_wait_for_the_receiver(void **state)
{
	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path path = path_to(loops[f][0], loops[f][1], 0, 0);
		struct inbox in = {.path = &path};
		unsigned sent = 0, turns = 0;

		while (sent < 4096) {
			unsigned n = send_unacknowledged(&path, sent, URXE_TX_BATCH);

			sent += n;
			assert_true(sent - in.have <= 64);
			if (n < URXE_TX_BATCH)
				urxe_wire_poll(wire, 128, urxe_now(), take, &in);
			assert_true(++turns < 100000);
		}
		poll_for(wire, take, &in, &in.have, sent, 1000);
		assert_int_equal(in.have, sent);
		assert_int_equal(in.wrong, 0);
	}
}

/* A receiver that stands still is waited for, but not for ever. */
static void unacknowledged_ones_do_not_wait_for_ever(void **state)
{
	struct urxe_path path = path_to(loops[0][0], loops[0][1], 0, 0);
	struct inbox in = {.path = &path};
	uint64_t begin = urxe_now();
	unsigned sent = 0, n;

	while ((n = send_unacknowledged(&path, sent, URXE_TX_BATCH)))
		sent += n;
	while (!(n = send_unacknowledged(&path, sent, URXE_TX_BATCH)))
		assert_true(urxe_now() - begin < 3000000000ull);
	assert_true(urxe_now() - begin > 100000000);
	while (urxe_wire_poll(wire, 128, urxe_now(), take, &in))
		;
	assert_true(in.have >= sent);
}

static void descriptor(void **state)
{
	struct pollfd p = {urxe_wire_fd(wire), POLLIN, 0};

	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path path = path_to(loops[f][0], loops[f][1], 0, 0);
		struct inbox in = {.path = &path};
		struct urxe_tx_packet pkt;
		struct iovec iov = {data, 8};

		fill_packet(&pkt, qpn, 0, &iov, 1);
		assert_int_equal(poll(&p, 1, 0), 0);
		assert_int_equal(urxe_wire_send(wire, &path, &pkt, 1), 1);
		assert_int_equal(poll(&p, 1, 1000), 1);
		poll_for(wire, take, &in, &in.have, 1, 1000);
		assert_int_equal(in.have, 1);
		assert_int_equal(poll(&p, 1, 0), 0);
	}
}

/* A family that was silent while the other was busy is heard at once. */
static void no_family_waits(void **state)
{
	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path busy = path_to(loops[f][0], loops[f][1], 0, 0);
		struct urxe_path quiet = path_to(loops[!f][0], loops[!f][1], 0, 0);
		struct inbox in = {.path = &quiet};
		struct iovec iov = {data, 8};
		struct urxe_tx_packet pkt;
		uint32_t size = 8;

		for (int k = 0; k < 20; k++)
			send_sizes(&busy, &size, 1);
		fill_packet(&pkt, qpn, 0, &iov, 1);
		assert_int_equal(urxe_wire_send(wire, &quiet, &pkt, 1), 1);
		urxe_wire_poll(wire, 64, urxe_now(), take, &in);
		assert_int_equal(in.have, 1);
	}
}

static void send_one(const struct urxe_path *path)
{
	struct iovec iov = {data, 8};
	struct urxe_tx_packet pkt;

	fill_packet(&pkt, qpn, 0, &iov, 1);
	assert_int_equal(urxe_wire_send(wire, path, &pkt, 1), 1);
}

/*
 * The busy family's socket is not watched while a program polls. The other one is heard
 * soon all the same, and whoever then sleeps on the descriptor is woken for both, by
 * what had come before as well.
 */
static void no_family_is_lost_to_pollers(void **state)
{
	struct pollfd p = {urxe_wire_fd(wire), POLLIN, 0};

	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path busy = path_to(loops[f][0], loops[f][1], 0, 0);
		struct urxe_path quiet = path_to(loops[!f][0], loops[!f][1], 0, 0);
		struct inbox in = {.path = &busy}, other = {.path = &quiet};

		for (unsigned k = 1; k <= 20; k++) {
			urxe_wire_attend(wire, true);
			send_one(&busy);
			poll_for(wire, take, &in, &in.have, k, 1000);
			assert_int_equal(in.have, k);
		}
		send_one(&busy);
		assert_int_equal(poll(&p, 1, 0), 0);
		urxe_wire_attend(wire, false);
		assert_int_equal(poll(&p, 1, 0), 1);
		poll_for(wire, take, &in, &in.have, 21, 1000);
		assert_int_equal(poll(&p, 1, 0), 0);

		urxe_wire_attend(wire, true);
		send_one(&quiet);
		poll_for(wire, take, &other, &other.have, 1, 1000);
		assert_int_equal(other.have, 1);
		send_one(&busy);
		assert_int_equal(poll(&p, 1, 0), 1);
		poll_for(wire, take, &in, &in.have, 22, 1000);
		urxe_wire_attend(wire, false);
	}
}

static void end_wire(void)
{
	urxe_wire_destroy(wire);
	wire = NULL;
}

/* Somebody else's socket on the port, of either family, is an error with a cure; when it goes,
 * all is well again, and nothing of the failed attempt is left in the group. */
static void port_taken(void **state)
{
	uint8_t slots[256];

	for (unsigned f = 0; f < 2; f++) {
		union urxe_ip_sockaddr addr = {.sa.sa_family = f ? AF_INET6 : AF_INET};
		int on = 1, fd = socket(addr.sa.sa_family, SOCK_DGRAM, 0);
		uint32_t size = 8;
		struct urxe_path path;

		end_wire();
		addr.in.sin_port = htons(URXE_UDP_PORT);
		if (f)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
		assert_int_equal(bind(fd, &addr.sa, f ? sizeof(addr.in6) : sizeof(addr.in)), 0);
		assert_int_equal(urxe_wire_create(seg, &wire), -EADDRINUSE);
		assert_null(wire);
		close(fd);
		assert_int_equal(urxe_segment_group(seg, URXE_IPV4, slots, 256), 0);
		assert_int_equal(urxe_segment_group(seg, URXE_IPV6, slots, 256), 0);
		assert_int_equal(urxe_wire_create(seg, &wire), 0);
		assert_int_equal(urxe_segment_group(seg, URXE_IPV4, slots, 256), 1);
		assert_int_equal(slots[0], urxe_segment_slot(seg));
		path = path_to(loops[f][0], loops[f][1], 0, 0);
		send_sizes(&path, &size, 1);
	}
}

static int absent; /* a family that this host has not */

static int poor_socket(int domain, int type, int protocol)
{
	errno = EAFNOSUPPORT;
	return domain == absent ? -1 : real.socket(domain, type, protocol);
}

/* A host with one family only works with that one. */
static void one_family(void **state)
{
	static const int families[] = {AF_INET, AF_INET6};

	for (unsigned f = 0; f < 2; f++) {
		struct urxe_path path;
		uint32_t size = 8;

		end_wire();
		real = urxe_libc;
		absent = families[!f];
		urxe_libc.socket = poor_socket;
		assert_int_equal(urxe_wire_create(seg, &wire), 0);
		path = path_to(loops[f][0], loops[f][1], 0, 0);
		send_sizes(&path, &size, 1);
		urxe_libc = real;
	}
	end_wire();
	assert_int_equal(urxe_wire_create(seg, &wire), 0);
}

/* Without a descriptor left, a send socket that is open serves another path's packets. */
static void no_descriptor_left(void **state)
{
	struct urxe_path path = path_to(loops[0][0], loops[0][1], 0, 0);
	uint32_t size = 8;

	end_wire();
	assert_int_equal(urxe_wire_create(seg, &wire), 0);
	path.roce_own.socket = 3;
	send_sizes(&path, &size, 1);
	real = urxe_libc;
	absent = AF_INET;
	urxe_libc.socket = poor_socket;
	path.roce_own.socket = 4;
	send_sizes(&path, &size, 1);
	urxe_libc = real;
}

static int group_setup(void **state)
{
	own_network();
	for (size_t k = 0; k < sizeof(data); k++)
		data[k] = rand();
	dev = lo_device();
	assert_int_equal(urxe_segment_join(&seg), 0);
	assert_int_equal(urxe_wire_create(seg, &wire), 0);
	qpn = urxe_segment_qpn_alloc(seg);
	assert_int_not_equal(qpn, 0);
	return 0;
}

static int group_teardown(void **state)
{
	urxe_wire_destroy(wire);
	urxe_segment_leave(seg);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_size),
		cmocka_unit_test(batches),
		cmocka_unit_test(gather_lists),
		cmocka_unit_test(ip_header_fields),
		cmocka_unit_test(counters),
		cmocka_unit_test(strangers),
		cmocka_unit_test(paths),
		cmocka_unit_test(broken_path),
		cmocka_unit_test(no_segmentation),
		cmocka_unit_test(full_socket),
		cmocka_unit_test(unacknowledged_ones_wait_for_the_receiver),
		cmocka_unit_test(unacknowledged_ones_do_not_wait_for_ever),
		cmocka_unit_test(descriptor),
		cmocka_unit_test(no_family_waits),
		cmocka_unit_test(no_family_is_lost_to_pollers),
		cmocka_unit_test(port_taken),
		cmocka_unit_test(one_family),
		cmocka_unit_test(no_descriptor_left),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
