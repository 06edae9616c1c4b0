/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The socket by which the other processes of this host reach this one: a datagram socket of the
 * unix domain beside the host segment (host/segment_socket.h). Three things come by it:
 *
 * - Packets that the kernel gave to the wrong process are forwarded to their owner. That is lossy as the
 *   network is: a full queue drops.
 * - A wake-up: one byte, for a process that sleeps while a neighbour's ring has packets for it.
 * - A message of the floor above (urxe_wire_send_message()), behind a header whose stride is the sender's slot.
 *
 * A datagram holds the packets of one received batch that belong to one owner:
 *
 *	+-------------------------+----------+----------+-----+
 *	| struct ipc_header (64)  | packet 0 | packet 1 | ... |	each stride bytes long, the last
 *	+-------------------------+----------+----------+-----+	may be shorter; with their ICRC
 *
 * The process that forwards them has checked their ICRC. Only processes of this user can open the
 * socket, and the kernel names the sender's user with each datagram (SCM_CREDENTIALS); others' are
 * dropped unread. Guarded by the engine's lock.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/fd.h"
#include "host/segment_socket.h"
#include "wire/shm.h"

#define IPC_MAGIC     0x75727865u
#define MESSAGE_MAGIC 0x75727866u
#define MAX_PACKETS   128
#define MAX_POSTPONED 4096 /* datagrams of one packet */
#define RETRY_NS      200000ull
#define MAX_WAIT_NS   2000000000ull
#define MAX_HOPS      2 /* to a process that understands the packet, and from there to its owner */
#define OWNERS	      8 /* of one received batch; for more than that one datagram leaves early */

struct ipc_header {
	uint32_t magic;
	uint32_t stride;
	struct urxe_path path; /* as it came */
	uint16_t source_port;
	uint8_t hops; /* forwarded so often by processes that understood the packet; 0: by its QPN */
	uint8_t zero[5];
};
static_assert(sizeof(struct ipc_header) == 64, "as in the picture");
static_assert(URXE_MESSAGE_MAX >= URXE_RX_BUFFER, "the buffer is for both");

struct batch {
	unsigned slot; /* 0: unused */
	uint32_t stride, last_len;
	unsigned iovs;
	struct iovec iov[1 + MAX_PACKETS]; /* 0 is for the header */
	unsigned packets;
};

/* A datagram of urxe_wire_forward() that found its owner's queue full. */
struct postponed {
	struct postponed *next;
	uint64_t since; /* ns */
	unsigned slot;
	uint32_t len;
	uint8_t bytes[];
};

struct urxe_ipc {
	int fd;
	struct postponed *first, **last;
	unsigned num_postponed;
	uint64_t retry_at;
	struct batch batches[OWNERS];
	unsigned used;
	uint8_t buffer[sizeof(struct ipc_header) + URXE_MESSAGE_MAX];
};

int urxe_ipc_open(struct urxe_wire *wire)
{
	struct urxe_ipc *ipc = calloc(1, sizeof(*ipc));
	int on = 1, size = 4 << 20, ret;

	if (!ipc)
		return -ENOMEM;
	wire->ipc = ipc;
	ipc->fd = urxe_fd_keep(
		urxe_libc.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (ipc->fd < 0)
		return -errno;
	urxe_libc.setsockopt(ipc->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (urxe_libc.setsockopt(ipc->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return -errno;
	ret = urxe_segment_socket_bind(wire->seg, ipc->fd);
	return ret ? ret : urxe_wire_watch(wire, ipc->fd, NULL);
}

void urxe_ipc_close(struct urxe_wire *wire)
{
	if (!wire->ipc)
		return;
	urxe_segment_socket_remove(wire->seg);
	while (wire->ipc->first) {
		struct postponed *w = wire->ipc->first;

		wire->ipc->first = w->next;
		free(w);
	}
	urxe_fd_close(wire->ipc->fd);
	free(wire->ipc);
	wire->ipc = NULL;
}

/* ---- out ---- */

/*
 * The queue of a datagram socket may be as short as ten datagrams. That is enough for data, which
 * is repeated within milliseconds. The messages of urxe_wire_forward() are repeated after seconds,
 * so a bounded number of them wait for room, for MAX_WAIT_NS at most.
 */
static void postpone(struct urxe_ipc *ipc, unsigned slot, const struct iovec *iov, unsigned iovs)
{
	struct postponed *w;
	uint32_t len = 0;

	if (ipc->num_postponed == MAX_POSTPONED)
		return;
	for (unsigned k = 0; k < iovs; k++)
		len += iov[k].iov_len;
	w = malloc(sizeof(*w) + len);
	if (!w)
		return;
	*w = (struct postponed){.since = urxe_now(), .slot = slot};
	for (unsigned k = 0; k < iovs; k++) {
		memcpy(w->bytes + w->len, iov[k].iov_base, iov[k].iov_len);
		w->len += iov[k].iov_len;
	}
	if (!ipc->first) {
		ipc->last = &ipc->first;
		ipc->retry_at = w->since + RETRY_NS;
	}
	*ipc->last = w;
	ipc->last = &w->next;
	ipc->num_postponed++;
}

/* A datagram: -EAGAIN: the queue of the slot's process is full; another error: it has no socket. */
static int send_to(struct urxe_wire *wire, unsigned slot, struct iovec *iov, unsigned iovs)
{
	struct sockaddr_un name;
	struct msghdr msg = {
		.msg_name = &name,
		.msg_namelen = urxe_segment_socket_name(wire->seg, slot, &name),
		.msg_iov = iov,
		.msg_iovlen = iovs,
	};

	return urxe_libc.sendmsg(wire->ipc->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* False: its owner's queue is still full. */
static bool send_postponed(struct urxe_wire *wire, struct postponed *w, uint64_t now)
{
	struct iovec iov = {w->bytes, w->len};

	return now - w->since > MAX_WAIT_NS || send_to(wire, w->slot, &iov, 1) != -EAGAIN;
}

void urxe_ipc_retry(struct urxe_wire *wire, uint64_t now)
{
	struct urxe_ipc *ipc = wire->ipc;
	struct postponed **link = &ipc->first, *w;
	bool full[URXE_MAX_SLOTS] = {false};

	if (!ipc->first || now < ipc->retry_at)
		return;
	while ((w = *link)) {
		/* Behind one that waits, others for the same owner wait too. */
		if (full[w->slot] || !send_postponed(wire, w, now)) {
			full[w->slot] = true;
			link = &w->next;
			continue;
		}
		*link = w->next;
		free(w);
		ipc->num_postponed--;
	}
	ipc->last = link;
	ipc->retry_at = now + RETRY_NS;
}

uint64_t urxe_ipc_deadline(const struct urxe_wire *wire)
{
	return wire->ipc->first ? wire->ipc->retry_at : UINT64_MAX;
}

/* iov[0] is for the header. */
static int send_packets(struct urxe_wire *wire, const struct urxe_arrival *from, unsigned slot,
			struct iovec *iov, unsigned iovs, uint32_t stride, unsigned packets,
			unsigned hops)
{
	struct ipc_header header = {
		.magic = IPC_MAGIC,
		.stride = stride,
		.path = from->pkt.path,
		.source_port = from->pkt.source_port,
		.hops = hops,
	};
	int ret;

	iov[0] = (struct iovec){&header, sizeof(header)};
	ret = send_to(wire, slot, iov, iovs);
	if (!ret)
		urxe_wire_counters(wire, &from->pkt.path)[URXE_CNT_FORWARDED] += packets;
	else if (ret == -EAGAIN && hops)
		postpone(wire->ipc, slot, iov, iovs);
	return ret;
}

/* Their owner has died: the process that got them may have its records. */
static void deliver_here(struct urxe_wire *wire, struct urxe_arrival *from,
			 const struct batch *batch)
{
	for (unsigned k = 1; k < batch->iovs; k++) {
		uint8_t *bytes = batch->iov[k].iov_base;
		uint32_t len = batch->iov[k].iov_len, size;

		for (; len; bytes += size, len -= size) {
			size = batch->stride < len ? batch->stride : len;
			urxe_deliver(wire, from, bytes, size);
		}
	}
}

static void send_batch(struct urxe_wire *wire, struct urxe_arrival *from, struct batch *batch)
{
	int ret = send_packets(wire, from, batch->slot, batch->iov, batch->iovs, batch->stride,
			       batch->packets, 0);

	if (ret && ret != -EAGAIN)
		deliver_here(wire, from, batch);
}

static const struct urxe_arrival *arrival_of(const struct urxe_rx_packet *pkt)
{
	return (const void *)((const char *)pkt - offsetof(struct urxe_arrival, pkt));
}

static void forward(struct urxe_wire *wire, unsigned slot, const struct urxe_rx_packet *pkt,
		    unsigned hops)
{
	uint32_t len = pkt->len + URXE_ICRC_LEN;
	uint8_t icrc[URXE_ICRC_LEN] = {0}; /* its place: nobody looks at it any more */
	struct iovec iov[3] = {{NULL, 0}, {(void *)pkt->bth, pkt->len}, {icrc, sizeof(icrc)}};

	send_packets(wire, arrival_of(pkt), slot, iov, 3, len, 1, hops);
}

int urxe_wire_forward(struct urxe_wire *wire, unsigned slot, const struct urxe_rx_packet *pkt)
{
	unsigned hops = arrival_of(pkt)->hops;

	if (hops >= MAX_HOPS)
		return -ELOOP;
	if (slot == wire->slot || !urxe_segment_slot_alive(wire->seg, slot))
		return -ESRCH;
	forward(wire, slot, pkt, hops + 1);
	return 0;
}

int urxe_wire_forward_all(struct urxe_wire *wire, const struct urxe_rx_packet *pkt)
{
	if (arrival_of(pkt)->hops >= MAX_HOPS)
		return -ELOOP;
	for (unsigned s = URXE_SLOT_FIRST; s <= urxe_slots.last; s++)
		if (s != wire->slot && urxe_segment_gsi_awake(wire->seg, s))
			forward(wire, s, pkt, MAX_HOPS);
	return 0;
}

/* Does a message wait that was sent before? */
static bool waits_for(const struct urxe_ipc *ipc, unsigned slot)
{
	for (const struct postponed *w = ipc->first; w; w = w->next)
		if (w->slot == slot)
			return true;
	return false;
}

int urxe_wire_send_message(struct urxe_wire *wire, unsigned slot, const void *message, uint32_t len)
{
	struct ipc_header header = {.magic = MESSAGE_MAGIC, .stride = wire->slot};
	struct iovec iov[2] = {{&header, sizeof(header)}, {(void *)message, len}};

	if (len > URXE_MESSAGE_MAX)
		return -EMSGSIZE;
	if (slot == wire->slot || !urxe_segment_slot_alive(wire->seg, slot))
		return -ESRCH;
	if (waits_for(wire->ipc, slot) || send_to(wire, slot, iov, 2) == -EAGAIN)
		postpone(wire->ipc, slot, iov, 2);
	return 0;
}

void urxe_wire_on_message(struct urxe_wire *wire, urxe_wire_message_fn *fn)
{
	wire->on_message = fn;
}

/* An owner whose queue is full is awake or will be. */
void urxe_ipc_wake(struct urxe_wire *wire, unsigned slot)
{
	struct sockaddr_un name;
	socklen_t len = urxe_segment_socket_name(wire->seg, slot, &name);

	urxe_libc.sendto(wire->ipc->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
			 (struct sockaddr *)&name, len);
}

void urxe_ipc_flush(struct urxe_wire *wire, struct urxe_arrival *from)
{
	struct urxe_ipc *ipc = wire->ipc;

	for (; ipc->used; ipc->used--)
		send_batch(wire, from, &ipc->batches[ipc->used - 1]);
}

/* The batch for an owner. It must still take a packet: one shorter than the stride ends a
 * datagram. */
static struct batch *batch_for(struct urxe_wire *wire, struct urxe_arrival *from, unsigned slot,
			       uint32_t stride)
{
	struct urxe_ipc *ipc = wire->ipc;
	struct batch *batch;

	for (unsigned k = 0; k < ipc->used; k++) {
		batch = &ipc->batches[k];
		if (batch->slot != slot)
			continue;
		if (batch->stride == stride && batch->last_len == stride &&
		    batch->packets < MAX_PACKETS)
			return batch;
		send_batch(wire, from, batch);
		goto fresh;
	}
	if (ipc->used == OWNERS)
		urxe_ipc_flush(wire, from);
	batch = &ipc->batches[ipc->used++];
fresh:
	batch->slot = slot;
	batch->stride = stride;
	batch->packets = 0;
	batch->iovs = 1;
	return batch;
}

void urxe_ipc_forward(struct urxe_wire *wire, struct urxe_arrival *from, unsigned slot,
		      void *packet, uint32_t len, uint32_t stride)
{
	struct batch *batch = batch_for(wire, from, slot, stride);
	struct iovec *last = &batch->iov[batch->iovs - 1];

	if (batch->packets && (uint8_t *)last->iov_base + last->iov_len == packet)
		last->iov_len += len;
	else
		batch->iov[batch->iovs++] = (struct iovec){packet, len};
	batch->last_len = len;
	batch->packets++;
}

/* ---- in ---- */

static bool is_ours(struct msghdr *msg)
{
	struct ucred cred;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&cred, CMSG_DATA(c), sizeof(cred));
		return cred.uid == geteuid() || cred.uid == getuid();
	}
	return false;
}

static int receive_packets(struct urxe_wire *wire, uint8_t *bytes, size_t len)
{
	struct ipc_header header;
	struct urxe_arrival from = {0};
	int packets = 0;

	if (len < sizeof(header))
		return 0;
	memcpy(&header, bytes, sizeof(header));
	if (header.magic == MESSAGE_MAGIC && wire->on_message) {
		if (header.stride < URXE_SLOT_FIRST || header.stride > urxe_slots.last)
			return 0;
		wire->on_message(header.stride, bytes + sizeof(header), len - sizeof(header));
		return 1;
	}
	if (header.magic != IPC_MAGIC || header.path.link >= URXE_NUM_LINKS)
		return 0;
	bytes += sizeof(header);
	len -= sizeof(header);
	from.pkt.path = header.path;
	urxe_link_of(&header.path)->arrive(wire, &from.pkt.path);
	from.pkt.source_port = header.source_port;
	from.pkt.span = 1;
	from.hops = header.hops;
	while (len >= sizeof(struct urxe_bth) + URXE_ICRC_LEN) {
		uint32_t size = header.stride < len ? header.stride : len;

		if (size < sizeof(struct urxe_bth) + URXE_ICRC_LEN || size % 4)
			break;
		/* Not ours after all: the slot changed hands. It is not sent on a second time. */
		if (from.hops || urxe_packet_owner(wire, bytes) == wire->slot)
			urxe_deliver(wire, &from, bytes, size);
		packets++;
		bytes += size;
		len -= size;
	}
	return packets;
}

int urxe_ipc_receive(struct urxe_wire *wire)
{
	struct urxe_ipc *ipc = wire->ipc;
	int packets = 0;

	for (int n = 0; n < 64; n++) {
		struct iovec iov = {ipc->buffer, sizeof(ipc->buffer)};
		_Alignas(8) uint8_t control[CMSG_SPACE(sizeof(struct ucred))];
		struct msghdr msg = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};
		ssize_t len = urxe_libc.recvmsg(ipc->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (len < 0)
			break;
		if (!is_ours(&msg))
			continue;
		if (len == 1)
			urxe_shm_woken(wire);
		else
			packets += receive_packets(wire, ipc->buffer, len);
	}
	return packets;
}
