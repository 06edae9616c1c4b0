/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Mail: packets that the kernel gave to the wrong process go to their owner through a datagram
 * socket of the unix domain, whose abstract name has the user, the network namespace and the
 * owner's slot. It is lossy as the network is: a full queue drops. Guarded by the wire's lock.
 *
 * A letter holds the packets of one received batch that belong to one owner:
 *
 *	+--------------------+----------+----------+-----+
 *	| struct letter (56) | packet 0 | packet 1 | ... |	each stride bytes long, the last
 *	+--------------------+----------+----------+-----+	may be shorter; with their ICRC
 *
 * Their ICRC has been checked by the process that sends them on. That it is one of this user says
 * the kernel (SCM_CREDENTIALS); letters of others are thrown away.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "host/fd.h"
#include "wire/shm.h"

#define LETTER_MAGIC   0x75727865u
#define LETTER_PACKETS 128
#define MAX_WAITING    4096 /* letters of one packet */
#define RETRY_NS       200000ull
#define MAX_WAIT_NS    2000000000ull
#define MAX_HOPS       2 /* to one who understands the packet, and from there to its owner */
#define OWNERS	       8 /* of one batch; more than that and one letter leaves early */

struct letter {
	uint32_t magic;
	uint32_t stride;
	struct in6_addr saddr, daddr;
	uint32_t ifindex;
	uint16_t sport;
	uint8_t ipv6;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t hops; /* for packets handed on by whoever understood them; 0: by their QPN */
	uint8_t zero[6];
};
static_assert(sizeof(struct letter) == 56, "as in the picture");

struct draft {
	unsigned slot; /* 0: unused */
	uint32_t stride, last_len;
	unsigned iovs;
	struct iovec iov[1 + LETTER_PACKETS]; /* 0 is for the header */
	unsigned packets;
};

/* A letter that found its owner's queue full, on its way by urxe_wire_forward(). */
struct waiting {
	struct waiting *next;
	uint64_t since; /* ns */
	unsigned slot;
	uint32_t len;
	uint8_t bytes[];
};

struct urxe_mail {
	int fd;
	struct waiting *first, **last;
	unsigned num_waiting;
	uint64_t retry_at;
	ino_t netns;
	struct draft drafts[OWNERS];
	unsigned used;
	uint8_t buffer[sizeof(struct letter) + URXE_RX_BUFFER];
};

static socklen_t mail_name(const struct urxe_mail *mail, unsigned slot, struct sockaddr_un *name)
{
	int len;

	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	len = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "urxe/%u.%llu/%u", geteuid(),
		       (unsigned long long)mail->netns, slot);
	return offsetof(struct sockaddr_un, sun_path) + 1 + len;
}

/* A child that a fork left may hold the name of a slot's former owner for a moment. */
static int bind_patiently(const struct urxe_mail *mail, unsigned slot)
{
	struct timespec pause = {.tv_nsec = 5000000};
	struct sockaddr_un name;
	socklen_t len = mail_name(mail, slot, &name);

	for (int tries = 0; tries < 40; tries++) {
		if (!urxe_libc.bind(mail->fd, (struct sockaddr *)&name, len))
			return 0;
		if (errno != EADDRINUSE)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return -EADDRINUSE;
}

int urxe_mail_open(struct urxe_wire *wire)
{
	struct urxe_mail *mail = calloc(1, sizeof(*mail));
	int on = 1, size = 4 << 20, ret;
	struct stat st;

	if (!mail)
		return -ENOMEM;
	wire->mail = mail;
	mail->netns = stat("/proc/self/ns/net", &st) ? 0 : st.st_ino;
	mail->fd = urxe_fd_keep(
		urxe_libc.socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (mail->fd < 0)
		return -errno;
	urxe_libc.setsockopt(mail->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (urxe_libc.setsockopt(mail->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)))
		return -errno;
	ret = bind_patiently(mail, wire->slot);
	if (ret == -EADDRINUSE)
		urxe_wire_explain_strangers(wire);
	return ret ? ret : urxe_wire_watch(wire, mail->fd, NULL);
}

void urxe_mail_close(struct urxe_wire *wire)
{
	if (!wire->mail)
		return;
	while (wire->mail->first) {
		struct waiting *w = wire->mail->first;

		wire->mail->first = w->next;
		free(w);
	}
	if (wire->mail->fd >= 0)
		urxe_fd_close(wire->mail->fd);
	free(wire->mail);
	wire->mail = NULL;
}

/* ---- out ---- */

/*
 * The queue of a datagram socket may be as short as ten letters. For data that is repeated within
 * milliseconds this does not matter; the messages that are handed on here are repeated after seconds.
 * So those wait, a while and not too many of them.
 */
static void keep_waiting(struct urxe_mail *mail, unsigned slot, const struct iovec *iov,
			 unsigned iovs)
{
	struct waiting *w;
	uint32_t len = 0;

	if (mail->num_waiting == MAX_WAITING)
		return;
	for (unsigned k = 0; k < iovs; k++)
		len += iov[k].iov_len;
	w = malloc(sizeof(*w) + len);
	if (!w)
		return;
	*w = (struct waiting){.since = urxe_wire_now(), .slot = slot};
	for (unsigned k = 0; k < iovs; k++) {
		memcpy(w->bytes + w->len, iov[k].iov_base, iov[k].iov_len);
		w->len += iov[k].iov_len;
	}
	if (!mail->first) {
		mail->last = &mail->first;
		mail->retry_at = w->since + RETRY_NS;
	}
	*mail->last = w;
	mail->last = &w->next;
	mail->num_waiting++;
}

/* False: its owner's queue is still full. */
static bool send_waiting(struct urxe_wire *wire, const struct waiting *w, uint64_t now)
{
	struct sockaddr_un name;
	socklen_t len = mail_name(wire->mail, w->slot, &name);

	if (now - w->since > MAX_WAIT_NS || !urxe_segment_slot_alive(wire->seg, w->slot))
		return true;
	return urxe_libc.sendto(wire->mail->fd, w->bytes, w->len, MSG_DONTWAIT | MSG_NOSIGNAL,
				(struct sockaddr *)&name, len) >= 0 ||
	       errno != EAGAIN;
}

void urxe_mail_retry(struct urxe_wire *wire, uint64_t now)
{
	struct urxe_mail *mail = wire->mail;
	struct waiting **link = &mail->first, *w;
	bool full[URXE_SLOT_LAST + 1] = {false};

	if (!mail->first || now < mail->retry_at)
		return;
	while ((w = *link)) {
		/* Behind one that waits, others for the same owner wait too. */
		if (full[w->slot] || !send_waiting(wire, w, now)) {
			full[w->slot] = true;
			link = &w->next;
			continue;
		}
		*link = w->next;
		free(w);
		mail->num_waiting--;
	}
	mail->last = link;
	mail->retry_at = now + RETRY_NS;
}

uint64_t urxe_mail_deadline(const struct urxe_wire *wire)
{
	return wire->mail->first ? wire->mail->retry_at : UINT64_MAX;
}

/* iov[0] is for the header. */
static void send_letter(struct urxe_wire *wire, const struct urxe_arrival *from, unsigned slot,
			struct iovec *iov, unsigned iovs, uint32_t stride, unsigned packets,
			unsigned hops)
{
	struct urxe_mail *mail = wire->mail;
	struct letter letter = {
		.magic = LETTER_MAGIC,
		.stride = stride,
		.saddr = from->flow.saddr,
		.daddr = from->flow.daddr,
		.ifindex = from->ifindex,
		.sport = from->flow.sport,
		.ipv6 = from->flow.ipv6,
		.traffic_class = from->pkt.traffic_class,
		.hop_limit = from->pkt.hop_limit,
		.hops = hops,
	};
	struct sockaddr_un name;
	struct msghdr msg = {
		.msg_name = &name,
		.msg_namelen = mail_name(mail, slot, &name),
		.msg_iov = iov,
		.msg_iovlen = iovs,
	};

	iov[0] = (struct iovec){&letter, sizeof(letter)};
	if (urxe_libc.sendmsg(mail->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno == EAGAIN && hops)
			keep_waiting(mail, slot, iov, iovs);
		return;
	}
	urxe_wire_counters(wire, from->pkt.dev)[URXE_CNT_FORWARDED] += packets;
}

static void send_draft(struct urxe_wire *wire, const struct urxe_arrival *from, struct draft *draft)
{
	/* A name whose process has died can be anybody's. */
	if (urxe_segment_slot_alive(wire->seg, draft->slot))
		send_letter(wire, from, draft->slot, draft->iov, draft->iovs, draft->stride,
			    draft->packets, 0);
}

static const struct urxe_arrival *arrival_of(const struct urxe_rx_packet *pkt)
{
	return (const void *)((const char *)pkt - offsetof(struct urxe_arrival, pkt));
}

static void hand_on(struct urxe_wire *wire, unsigned slot, const struct urxe_rx_packet *pkt,
		    unsigned hops)
{
	uint32_t len = pkt->len + URXE_ICRC_LEN;
	uint8_t icrc[URXE_ICRC_LEN] = {0}; /* its place: nobody looks at it any more */
	struct iovec iov[3] = {{NULL, 0}, {(void *)pkt->bth, pkt->len}, {icrc, sizeof(icrc)}};

	send_letter(wire, arrival_of(pkt), slot, iov, 3, len, 1, hops);
}

int urxe_wire_forward(struct urxe_wire *wire, unsigned slot, const struct urxe_rx_packet *pkt)
{
	unsigned hops = arrival_of(pkt)->hops;

	if (hops >= MAX_HOPS)
		return -ELOOP;
	if (slot == wire->slot || !urxe_segment_slot_alive(wire->seg, slot))
		return -ESRCH;
	hand_on(wire, slot, pkt, hops + 1);
	return 0;
}

int urxe_wire_forward_all(struct urxe_wire *wire, const struct urxe_rx_packet *pkt)
{
	if (arrival_of(pkt)->hops >= MAX_HOPS)
		return -ELOOP;
	for (unsigned s = URXE_SLOT_FIRST; s <= URXE_SLOT_LAST; s++)
		if (s != wire->slot && urxe_segment_gsi_awake(wire->seg, s))
			hand_on(wire, s, pkt, MAX_HOPS);
	return 0;
}

/* A letter too short to be one. A queue that is full wakes its owner as well. */
void urxe_mail_ring(struct urxe_wire *wire, unsigned slot)
{
	struct sockaddr_un name;
	socklen_t len = mail_name(wire->mail, slot, &name);

	urxe_libc.sendto(wire->mail->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL,
			 (struct sockaddr *)&name, len);
}

void urxe_mail_flush(struct urxe_wire *wire, const struct urxe_arrival *from)
{
	struct urxe_mail *mail = wire->mail;

	for (; mail->used; mail->used--)
		send_draft(wire, from, &mail->drafts[mail->used - 1]);
}

/* The draft for an owner. It must still take a packet: one shorter than the stride ends a
 * letter. */
static struct draft *draft_for(struct urxe_wire *wire, const struct urxe_arrival *from,
			       unsigned slot, uint32_t stride)
{
	struct urxe_mail *mail = wire->mail;
	struct draft *draft;

	for (unsigned k = 0; k < mail->used; k++) {
		draft = &mail->drafts[k];
		if (draft->slot != slot)
			continue;
		if (draft->stride == stride && draft->last_len == stride &&
		    draft->packets < LETTER_PACKETS)
			return draft;
		send_draft(wire, from, draft);
		goto fresh;
	}
	if (mail->used == OWNERS)
		urxe_mail_flush(wire, from);
	draft = &mail->drafts[mail->used++];
fresh:
	draft->slot = slot;
	draft->stride = stride;
	draft->packets = 0;
	draft->iovs = 1;
	return draft;
}

void urxe_mail_post(struct urxe_wire *wire, const struct urxe_arrival *from, unsigned slot,
		    void *packet, uint32_t len, uint32_t stride)
{
	struct draft *draft = draft_for(wire, from, slot, stride);
	struct iovec *last = &draft->iov[draft->iovs - 1];

	if (draft->packets && (uint8_t *)last->iov_base + last->iov_len == packet)
		last->iov_len += len;
	else
		draft->iov[draft->iovs++] = (struct iovec){packet, len};
	draft->last_len = len;
	draft->packets++;
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

static int open_letter(struct urxe_wire *wire, uint8_t *bytes, size_t len)
{
	struct letter letter;
	struct urxe_arrival from = {0};
	int packets = 0;

	if (len < sizeof(letter))
		return 0;
	memcpy(&letter, bytes, sizeof(letter));
	if (letter.magic != LETTER_MAGIC)
		return 0;
	bytes += sizeof(letter);
	len -= sizeof(letter);
	from.flow = (struct urxe_flow){
		.saddr = letter.saddr,
		.daddr = letter.daddr,
		.sport = letter.sport,
		.dport = URXE_UDP_PORT,
		.ipv6 = letter.ipv6,
	};
	from.ifindex = letter.ifindex;
	from.pkt.traffic_class = letter.traffic_class;
	from.pkt.hop_limit = letter.hop_limit;
	from.hops = letter.hops;
	urxe_arrival_finish(wire, &from);
	while (len >= sizeof(struct urxe_bth) + URXE_ICRC_LEN) {
		uint32_t size = letter.stride < len ? letter.stride : len;

		if (size < sizeof(struct urxe_bth) + URXE_ICRC_LEN || size % 4)
			break;
		/* Not ours after all: the slot changed hands. It is not sent on a second time. */
		if (from.hops ||
		    URXE_SLOT_OF_QPN(urxe_bth_qpn((struct urxe_bth *)bytes)) == wire->slot)
			urxe_deliver(wire, &from, bytes, size);
		packets++;
		bytes += size;
		len -= size;
	}
	return packets;
}

int urxe_mail_receive(struct urxe_wire *wire)
{
	struct urxe_mail *mail = wire->mail;
	int packets = 0;

	for (int letters = 0; letters < 64; letters++) {
		struct iovec iov = {mail->buffer, sizeof(mail->buffer)};
		_Alignas(8) uint8_t control[CMSG_SPACE(sizeof(struct ucred))];
		struct msghdr msg = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = control,
			.msg_controllen = sizeof(control),
		};
		ssize_t len = urxe_libc.recvmsg(mail->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

		if (len < 0)
			break;
		if (len == 1)
			urxe_shm_bell(wire);
		else if (is_ours(&msg))
			packets += open_letter(wire, mail->buffer, len);
	}
	return packets;
}
