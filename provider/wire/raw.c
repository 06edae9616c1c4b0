/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames of a netdev by packet(7). One socket sends; another one receives into a ring that is
 * mapped here (TPACKET_V2, as its frames are there at once, where those of V3 wait for a block to
 * fill).
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host/device.h"
#include "host/fd.h"
#include "wire/private.h"
#include "wire/raw.h"

#define RING_BYTES (4u << 20)
#define FRAME_MAX \
	16384 /* bytes of the ring for a frame, where the MTU is larger than any wire's (lo) */
#define TAG 4 /* bytes of an 802.1Q tag, which the kernel takes out */

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

struct urxe_raw {
	struct urxe_recv_socket sock; /* fd -1: nobody listens */
	struct urxe_wire *wire;
	unsigned ifindex;
	uint32_t frame_max; /* bytes, with header and tag */
	int send_fd;
	urxe_raw_rx_fn *fn;
	void *arg;
	uint8_t *ring;
	size_t bytes;
	uint32_t frame_size, frames, next;
};

/* The right is the same for raw sockets of IP, and to close one of those does not wait for the
 * kernel's other readers, as closing a packet socket does (1.5 ms). */
int urxe_raw_permitted(void)
{
	int fd = urxe_libc.socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);

	if (fd < 0)
		fd = urxe_libc.socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	if (fd >= 0) {
		urxe_libc.close(fd);
		return 0;
	}
	if (errno != EPERM && errno != EACCES)
		return -errno;
	urxe_log(URXE_LOG_ERROR, "raw packet QPs, and UD QPs that send by another number, need "
				 "CAP_NET_RAW: run as root, give the program that "
				 "capability, or run in a user and network namespace of your own "
				 "(unshare -Urn)");
	return -EPERM;
}

/* protocol 0: receives nothing. */
static int bind_to(int fd, unsigned ifindex, uint16_t protocol)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(protocol),
		.sll_ifindex = ifindex,
	};

	return urxe_libc.bind(fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
}

static int open_socket(unsigned ifindex)
{
	int fd = urxe_fd_keep(
		urxe_libc.socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int ret = fd < 0 ? -errno : bind_to(fd, ifindex, 0);

	if (!ret)
		return fd;
	urxe_fd_close(fd);
	return ret;
}

int urxe_raw_open(struct urxe_wire *wire, const struct urxe_port *port, urxe_raw_rx_fn *fn,
		  void *arg, struct urxe_raw **out)
{
	struct urxe_raw *raw = calloc(1, sizeof(*raw));

	if (!raw)
		return -ENOMEM;
	raw->wire = wire;
	raw->ifindex = urxe_port_ifindex(port);
	raw->frame_max = port->netdev.mtu + ETH_HLEN + TAG;
	raw->sock.fd = -1;
	raw->fn = fn;
	raw->arg = arg;
	raw->send_fd = raw->ifindex ? open_socket(raw->ifindex) : -ENODEV;
	if (raw->send_fd < 0) {
		int err = raw->send_fd;

		free(raw);
		return err;
	}
	*out = raw;
	return 0;
}

void urxe_raw_close(struct urxe_raw *raw)
{
	urxe_raw_listen(raw, false);
	urxe_fd_close(raw->send_fd);
	free(raw);
}

void urxe_raw_forked(struct urxe_raw *raw)
{
	urxe_fd_close(raw->sock.fd);
	urxe_fd_close(raw->send_fd);
	free(raw);
}

/* ---- receiving ---- */

/* Options of the socket before it is bound, so that no frame of another netdev is in the ring. */
static int set_ring(struct urxe_raw *raw, int fd)
{
	int version = TPACKET_V2, reserve = TAG, yes = 1;
	struct tpacket_req req = {0};

	raw->frame_size = 2048;
	while (raw->frame_size < TPACKET2_HDRLEN + 64 + raw->frame_max &&
	       raw->frame_size < FRAME_MAX)
		raw->frame_size <<= 1;
	raw->frames = RING_BYTES / raw->frame_size;
	req.tp_frame_size = raw->frame_size;
	req.tp_frame_nr = raw->frames;
	req.tp_block_size = 65536;
	req.tp_block_nr = (uint64_t)raw->frames * raw->frame_size / req.tp_block_size;
	if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_RESERVE, &reserve, sizeof(reserve)) ||
	    setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &req, sizeof(req)))
		return -errno;
	/* Since Linux 4.20. Without, they take up room and are passed over. */
	setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &yes, sizeof(yes));
	raw->bytes = (size_t)req.tp_block_size * req.tp_block_nr;
	raw->ring = mmap(NULL, raw->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (raw->ring == MAP_FAILED)
		return -errno;
	madvise(raw->ring, raw->bytes, MADV_DONTFORK);
	raw->next = 0;
	return 0;
}

/* All frames of the netdev, also those for other stations, as of a port that is a switch's
 * neighbour. */
static int join_all(struct urxe_raw *raw, int fd)
{
	struct packet_mreq all = {.mr_ifindex = raw->ifindex, .mr_type = PACKET_MR_PROMISC};

	return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) ? -errno : 0;
}

/* Puts the tag back between the addresses and the type. There is room in front (PACKET_RESERVE). */
static uint8_t *insert_tag(const struct tpacket2_hdr *h, uint8_t *frame)
{
	uint16_t type = h->tp_status & TP_STATUS_VLAN_TPID_VALID ? h->tp_vlan_tpid : ETH_P_8021Q;
	uint16_t tag[2] = {htons(type), htons(h->tp_vlan_tci)};

	memmove(frame - TAG, frame, 2 * ETH_ALEN);
	memcpy(frame - TAG + 2 * ETH_ALEN, tag, TAG);
	return frame - TAG;
}

static void take(struct urxe_raw *raw, struct tpacket2_hdr *h)
{
	const struct sockaddr_ll *from = (void *)((uint8_t *)h + TPACKET_ALIGN(sizeof(*h)));
	uint8_t *frame = (uint8_t *)h + h->tp_mac;
	uint32_t len = h->tp_snaplen;

	/* What is longer than the ring's frames is cut off. */
	if (from->sll_pkttype == PACKET_OUTGOING || len < h->tp_len || len < ETH_HLEN)
		return;
	if (h->tp_status & TP_STATUS_VLAN_VALID) {
		frame = insert_tag(h, frame);
		len += TAG;
	}
	raw->fn(frame, len, raw->arg);
}

static int receive(struct urxe_wire *wire, struct urxe_recv_socket *sock, unsigned budget)
{
	struct urxe_raw *raw =
		(struct urxe_raw *)((uint8_t *)sock - offsetof(struct urxe_raw, sock));
	unsigned n;

	for (n = 0; n < budget && raw->ring; n++) {
		struct tpacket2_hdr *h = (void *)(raw->ring + (size_t)raw->next * raw->frame_size);

		if (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
			break;
		take(raw, h);
		__atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
		raw->next = raw->next + 1 == raw->frames ? 0 : raw->next + 1;
	}
	return n;
}

static void stop(struct urxe_raw *raw)
{
	if (raw->sock.fd < 0)
		return;
	urxe_wire_forget(raw->wire, &raw->sock);
	urxe_fd_close(raw->sock.fd);
	raw->sock.fd = -1;
	if (raw->ring && raw->ring != MAP_FAILED)
		munmap(raw->ring, raw->bytes);
	raw->ring = NULL;
}

static int start(struct urxe_raw *raw)
{
	/* Bound to no protocol, it receives nothing before its ring is there. */
	int fd = open_socket(raw->ifindex), ret;

	if (fd < 0)
		return fd;
	raw->sock = (struct urxe_recv_socket){.fd = fd, .vlen = 1, .receive = receive};
	ret = set_ring(raw, fd)
		      ?: join_all(raw, fd)
		      ?: bind_to(fd, raw->ifindex, ETH_P_ALL)
		      ?: urxe_wire_watch(raw->wire, fd, &raw->sock);
	if (ret)
		stop(raw);
	return ret;
}

int urxe_raw_listen(struct urxe_raw *raw, bool listen)
{
	if (!listen)
		stop(raw);
	else if (raw->sock.fd < 0)
		return start(raw);
	return 0;
}

/* ---- sending ---- */

unsigned urxe_raw_send(struct urxe_raw *raw, struct mmsghdr *frames, unsigned n, int *error)
{
	int sent = urxe_libc.sendmmsg(raw->send_fd, frames, n, MSG_DONTWAIT);

	*error = 0;
	if (sent == (int)n)
		return n;
	/* Why it ended says only the next call. */
	if (sent <= 0)
		*error = errno == ENOBUFS || errno == EINTR ? -EAGAIN : -errno;
	else
		*error = -EAGAIN;
	return sent < 0 ? 0 : sent;
}
