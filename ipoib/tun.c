// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The interface: a TUN whose type is InfiniBand, so that programs see what they look for. The
 * kernel has no link-layer header on it and resolves nothing. It hands TCP over in packets of up to
 * 64 KiB and takes such, with a struct virtio_net_hdr in front. The loop's thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "ipoib/ipoib.h"

#define BATCH 64 /* packets until others have their turn */

/* The checksum that the kernel has left to the adapter. */
static bool complete(struct ipoib_packet *packet, const struct virtio_net_hdr *h)
{
	uint8_t *ip = packet->data + IPOIB_HEADER;
	size_t len = packet->len - IPOIB_HEADER, start = h->csum_start;
	uint16_t sum;

	if (!(h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM))
		return true;
	if (start + h->csum_offset + 2 > len)
		return false;
	sum = (uint16_t)~ipoib_fold(ipoib_sum(ip + start, len - start, 0));
	memcpy(ip + start + h->csum_offset, sum ? &sum : &(uint16_t){0xffff}, 2);
	return true;
}

static bool take(struct ipoib *ib, struct ipoib_packet *packet, ssize_t n,
		 const struct virtio_net_hdr *h)
{
	if (n < (ssize_t)sizeof(*h))
		return false;
	packet->len = (uint32_t)(IPOIB_HEADER + (size_t)n - sizeof(*h));
	packet->segment_size = 0;
	if (h->gso_type != VIRTIO_NET_HDR_GSO_NONE && h->gso_size &&
	    packet->len - IPOIB_HEADER > ib->mtu)
		packet->segment_size = h->gso_size;
	return packet->segment_size || complete(packet, h);
}

/* The TUN of an interface that is gone stays readable for ever, and nothing can be read. */
static void deleted(struct ipoib *ib)
{
	log_error("%s: the interface was deleted; start urxe-ipoib again for another one",
		  ib->options.name);
	ib->deleted = true;
	loop_quit(&ib->loop);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct ipoib *ib = arg;

	for (unsigned i = 0; i < BATCH && !queue_is_full(ib); i++) {
		struct ipoib_packet *packet = queue_packet(ib);
		struct virtio_net_hdr h;
		struct iovec iov[2] = {{&h, sizeof(h)}};
		ssize_t n;

		if (!packet)
			break;
		iov[1] = (struct iovec){packet->data + IPOIB_HEADER, IPOIB_PACKET_MAX};
		n = readv(ib->tun, iov, 2);
		if (n < 0) {
			queue_free(ib, packet);
			if (errno == EBADFD)
				deleted(ib);
			break;
		}
		if (take(ib, packet, n, &h)) {
			send_packet(ib, packet);
		} else {
			ib->stats.malformed++;
			queue_free(ib, packet);
		}
	}
	queue_flush(ib);
}

void tun_give(struct ipoib *ib, const struct iovec *iov, int count)
{
	if (writev(ib->tun, iov, count) < 0)
		ib->stats.drop_kernel++;
}

void tun_stop(struct ipoib *ib, bool stop)
{
	if (ib->tun_stopped == stop)
		return;
	ib->tun_stopped = stop;
	if (stop)
		event_del(ib->tun_readable);
	else
		event_add(ib->tun_readable, NULL);
}

void tun_set_carrier(struct ipoib *ib, bool carrier)
{
	int on = carrier;

	if (ib->carrier == carrier)
		return;
	ib->carrier = carrier;
	if (ioctl(ib->tun, TUNSETCARRIER, &on))
		log_warning("%s: carrier: %s", ib->options.name, strerror(errno));
}

static int refuse(struct ipoib *ib)
{
	int ret = -errno;

	if (ret == -EPERM)
		log_error("%s: no right to make an interface in this network namespace: be root in "
			  "it, or run in one of your own (unshare -Urn)",
			  ib->options.name);
	else if (ret == -EBUSY)
		log_error("%s: there is such an interface already; choose another name with --dev",
			  ib->options.name);
	else
		log_error("%s: %s", ib->options.name, strerror(errno));
	return ret;
}

int tun_create(struct ipoib *ib)
{
	struct ifreq ifr = {.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR};
	int off = 0, size = sizeof(struct virtio_net_hdr);

	ib->tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (ib->tun < 0) {
		log_error("/dev/net/tun: %s; a container needs it given (docker run --device "
			  "/dev/net/tun), a machine the module tun",
			  strerror(errno));
		return -errno;
	}
	memcpy(ifr.ifr_name, ib->options.name, IFNAMSIZ);
	if (ioctl(ib->tun, TUNSETIFF, &ifr) || ioctl(ib->tun, TUNSETLINK, ARPHRD_INFINIBAND) ||
	    ioctl(ib->tun, TUNSETVNETHDRSZ, &size) ||
	    ioctl(ib->tun, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6))
		return refuse(ib);
	memcpy(ib->options.name, ifr.ifr_name, IFNAMSIZ);
	ib->ifindex = if_nametoindex(ib->options.name);
	ib->mtu = IPOIB_MTU;
	ioctl(ib->tun, TUNSETCARRIER, &off);
	ib->tun_readable = event_new(ib->loop.base, ib->tun, EV_READ | EV_PERSIST, on_readable, ib);
	return ib->tun_readable && !event_add(ib->tun_readable, NULL) ? 0 : ipoib_fail(ib, ENOMEM);
}

void tun_destroy(struct ipoib *ib)
{
	if (ib->tun_readable)
		event_free(ib->tun_readable);
	if (ib->tun >= 0)
		close(ib->tun);
}
