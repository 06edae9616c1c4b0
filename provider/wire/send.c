/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Sending. A call's packets become runs of equal length (the last of a run may be shorter), which
 * the kernel cuts into datagrams itself (UDP_SEGMENT); several runs leave with one sendmmsg.
 *
 * Headers, small payloads, pads and ICRCs are written one behind the other into a stage, so that a
 * run of small packets is one piece of memory; larger payloads are gathered from where they lie:
 *
 *	stage	| hdr 0 |         | pad ICRC hdr 1 |         | pad ICRC |
 *	iovecs	[0      ] [user 0] [1              ] [user 1] [2        ]
 *
 * Guarded by the wire's lock.
 */
#include <errno.h>
#include <netinet/ip6.h>
#include <string.h>

#include "host/fd.h"
#include "wire/shm.h"

#ifndef SOL_UDP
#define SOL_UDP 17
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define SMALL	    256 /* payloads up to this are copied: cheaper than an iovec */
#define MAX_IOV	    32
#define RUN_IOV	    1000 /* below UIO_MAXIOV */
#define CONTROL_LEN 128
#define STAGE_LEN   (URXE_TX_BATCH * (URXE_MAX_HEADER + SMALL + 8))

/* Scratch of one call. */
static struct {
	struct mmsghdr msgs[URXE_TX_BATCH];
	unsigned run_packets[URXE_TX_BATCH];
	unsigned run_bytes[URXE_TX_BATCH];
	struct iovec iov[URXE_TX_BATCH * (MAX_IOV + 2)];
	unsigned iovs;
	bool open;    /* the last iovec ends where the stage does, and may grow */
	uint8_t *end; /* of the stage */
	_Alignas(8) uint8_t control[URXE_TX_BATCH][CONTROL_LEN];
	uint8_t stage[STAGE_LEN];
} tx;

/* What one call's packets have in common. */
struct send_job {
	struct urxe_wire *wire;
	const struct urxe_path *path;
	struct urxe_wire_port *port;
	unsigned ifindex;
	struct urxe_flow flow;
	union urxe_ip_sockaddr to;
	socklen_t to_len;
	int fd;
	bool gso;
	uint32_t prefix_len; /* prefix is for packets of this length; 0: not computed */
	uint32_t prefix;
	unsigned control_len; /* without UDP_SEGMENT */
	_Alignas(8) uint8_t control[CONTROL_LEN];
};

/* The socket of a path, opened when first used. When there is no descriptor left, one that is open
 * serves as well. */
static int send_socket(struct urxe_wire *wire, enum urxe_family family, unsigned source,
		       struct urxe_send_socket **sock)
{
	struct urxe_send_socket *all = wire->send[family];
	struct urxe_send_socket *s = &all[source % URXE_SEND_SOCKETS];
	int fd;

	*sock = s;
	if (s->fd >= 0)
		return 0;
	fd = urxe_udp_open_send(family, &s->port);
	if (fd >= 0) {
		s->fd = fd;
		return 0;
	}
	for (unsigned k = 0; k < URXE_SEND_SOCKETS; k++) {
		if (all[k].fd >= 0) {
			*sock = &all[k];
			return 0;
		}
	}
	return fd;
}

void urxe_send_close(struct urxe_wire *wire)
{
	for (unsigned f = 0; f < URXE_NUM_FAMILIES; f++) {
		for (unsigned k = 0; k < URXE_SEND_SOCKETS; k++) {
			urxe_fd_close(wire->send[f][k].fd);
			wire->send[f][k].fd = -1;
		}
	}
}

/* ---- control messages ---- */

static unsigned add_control(uint8_t *control, unsigned at, int level, int type, const void *data,
			    unsigned len)
{
	struct cmsghdr *cmsg = (struct cmsghdr *)(control + at);

	cmsg->cmsg_level = level;
	cmsg->cmsg_type = type;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), data, len);
	return at + CMSG_SPACE(len);
}

/* The source address; DSCP, ECN and TTL where they are not the default. The interface is named only
 * where the addresses do not say it: for multicast and link-local ones. */
static void make_control(struct send_job *job)
{
	const struct urxe_path *path = job->path;
	int tclass = path->roce.traffic_class, hops = path->roce.hop_limit;
	bool scoped = path->multicast || IN6_IS_ADDR_LINKLOCAL(&path->src.gid);
	unsigned ifindex = scoped ? job->ifindex : 0;
	unsigned at = 0;

	if (!job->flow.ipv6) {
		struct in_pktinfo info = {
			.ipi_ifindex = ifindex,
			.ipi_spec_dst.s_addr = path->src.gid.s6_addr32[3],
		};
		at = add_control(job->control, at, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	} else {
		struct in6_pktinfo info = {.ipi6_addr = path->src.gid, .ipi6_ifindex = ifindex};

		at = add_control(job->control, at, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	}
	if (tclass)
		at = add_control(job->control, at, job->flow.ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
				 job->flow.ipv6 ? IPV6_TCLASS : IP_TOS, &tclass, sizeof(tclass));
	if (hops && hops != 64)
		at = add_control(job->control, at, job->flow.ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
				 job->flow.ipv6 ? IPV6_HOPLIMIT : IP_TTL, &hops, sizeof(hops));
	job->control_len = at;
	static_assert(CMSG_SPACE(sizeof(struct in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int)) +
				      CMSG_SPACE(sizeof(uint16_t)) <=
			      CONTROL_LEN,
		      "all control messages fit");
}

static int job_init(struct send_job *job, struct urxe_wire *wire, const struct urxe_path *path)
{
	bool ipv6 = !urxe_is_ipv4(&path->src.gid);
	const struct urxe_port *port = urxe_port(path->port);
	struct urxe_send_socket *sock;
	int ret = send_socket(wire, ipv6 ? URXE_IPV6 : URXE_IPV4, path->roce_own.socket, &sock);

	if (ret)
		return ret;
	job->wire = wire;
	job->path = path;
	job->port = urxe_wire_port(wire, path);
	job->ifindex = port ? urxe_port_ifindex(port) : 0;
	job->fd = sock->fd;
	job->flow = (struct urxe_flow){
		.saddr = path->src.gid,
		.daddr = path->dst.gid,
		.sport = sock->port,
		.dport = URXE_UDP_PORT,
		.ipv6 = ipv6,
	};
	job->to_len = urxe_ip_sockaddr(&job->to, &path->dst.gid, URXE_UDP_PORT, job->ifindex);
	if (ipv6)
		job->to.in6.sin6_flowinfo = htobe32(path->roce_own.flow_label);
	job->gso = !job->port->no_gso;
	job->prefix_len = 0;
	make_control(job);
	return 0;
}

/* ---- packets to bytes ---- */

static uint32_t packet_len(const struct urxe_tx_packet *pkt)
{
	return pkt->header_len + pkt->payload_len + urxe_pad_of(pkt->payload_len) + URXE_ICRC_LEN;
}

static uint32_t prefix_of(struct send_job *job, uint32_t len, unsigned id)
{
	if (job->prefix_len != len) {
		job->prefix = urxe_icrc_prefix(&job->flow, len);
		job->prefix_len = len;
	}
	return job->flow.ipv6 ? job->prefix : urxe_icrc_prefix_id(job->prefix, id);
}

/* Gives the next len bytes of the stage to the run that is being built. */
static void take_stage(unsigned len)
{
	if (tx.open)
		tx.iov[tx.iovs - 1].iov_len += len;
	else
		tx.iov[tx.iovs++] = (struct iovec){tx.end, len};
	tx.open = true;
	tx.end += len;
}

static uint8_t *copy_payload(uint8_t *to, const struct urxe_tx_packet *pkt)
{
	for (unsigned k = 0; k < pkt->iovcnt; k++) {
		memcpy(to, pkt->iov[k].iov_base, pkt->iov[k].iov_len);
		to += pkt->iov[k].iov_len;
	}
	return to;
}

static void add_small(const struct urxe_tx_packet *pkt, uint32_t crc)
{
	uint8_t *to = tx.end;
	unsigned body = pkt->header_len + pkt->payload_len;
	unsigned pad = urxe_pad_of(pkt->payload_len);

	memcpy(to, pkt->header, pkt->header_len);
	copy_payload(to + pkt->header_len, pkt);
	memset(to + body, 0, pad);
	body += pad;
	urxe_icrc_store(to + body, urxe_icrc_bth(crc, to, body));
	take_stage(body + URXE_ICRC_LEN);
}

static void add_large(const struct urxe_tx_packet *pkt, uint32_t crc)
{
	unsigned pad = urxe_pad_of(pkt->payload_len);
	uint8_t *to = tx.end;

	memcpy(to, pkt->header, pkt->header_len);
	crc = urxe_icrc_bth(crc, to, pkt->header_len);
	take_stage(pkt->header_len);
	for (unsigned k = 0; k < pkt->iovcnt; k++) {
		if (!pkt->iov[k].iov_len)
			continue;
		crc = urxe_icrc_add(crc, pkt->iov[k].iov_base, pkt->iov[k].iov_len);
		tx.iov[tx.iovs++] = pkt->iov[k];
		tx.open = false;
	}
	to = tx.end;
	memset(to, 0, pad);
	urxe_icrc_store(to + pad, urxe_icrc_add(crc, to, pad));
	take_stage(pad + URXE_ICRC_LEN);
}

/* How many of the packets one UDP_SEGMENT send can take. */
static unsigned run_length(const struct urxe_tx_packet *pkts, unsigned n, bool gso)
{
	uint32_t first = packet_len(&pkts[0]), total = first;
	unsigned iovs = pkts[0].iovcnt + 2;
	unsigned count = 1;

	while (gso && count < n) {
		uint32_t len = packet_len(&pkts[count]);

		total += len;
		iovs += pkts[count].iovcnt + 1;
		if (len > first || total > URXE_DATAGRAM_MAX || iovs > RUN_IOV)
			break;
		count++;
		if (len < first)
			break;
	}
	return count;
}

static void build_run(struct send_job *job, unsigned run, const struct urxe_tx_packet *pkts,
		      unsigned count)
{
	struct msghdr *msg = &tx.msgs[run].msg_hdr;
	unsigned first_iov = tx.iovs;
	unsigned control_len = job->control_len;
	uint32_t bytes = 0;

	tx.open = false;
	for (unsigned k = 0; k < count; k++) {
		uint32_t len = packet_len(&pkts[k]);
		uint32_t crc = prefix_of(job, len, k);

		if (pkts[k].payload_len <= SMALL)
			add_small(&pkts[k], crc);
		else
			add_large(&pkts[k], crc);
		bytes += len;
	}
	tx.run_packets[run] = count;
	tx.run_bytes[run] = bytes;
	memcpy(tx.control[run], job->control, control_len);
	if (count > 1) {
		uint16_t segment = packet_len(&pkts[0]);

		control_len = add_control(tx.control[run], control_len, SOL_UDP, UDP_SEGMENT,
					  &segment, sizeof(segment));
	}
	*msg = (struct msghdr){
		.msg_name = &job->to,
		.msg_namelen = job->to_len,
		.msg_iov = &tx.iov[first_iov],
		.msg_iovlen = tx.iovs - first_iov,
		.msg_control = tx.control[run],
		.msg_controllen = control_len,
	};
}

static unsigned build(struct send_job *job, const struct urxe_tx_packet *pkts, unsigned n)
{
	unsigned runs = 0;

	tx.iovs = 0;
	tx.end = tx.stage;
	for (unsigned done = 0; done < n; runs++) {
		unsigned count = run_length(pkts + done, n - done, job->gso);

		build_run(job, runs, pkts + done, count);
		done += count;
	}
	return runs;
}

/* ---- bytes to the kernel ---- */

/* Sends the runs; adds the packets that left to *sent. 0 or -errno of the run that did not. */
static int push(struct send_job *job, unsigned runs, unsigned *sent)
{
	uint64_t *counters = urxe_wire_counters(job->wire, job->path);
	unsigned done = 0;

	while (done < runs) {
		int n;

		if (runs - done == 1)
			n = urxe_libc.sendmsg(job->fd, &tx.msgs[done].msg_hdr, MSG_DONTWAIT) < 0
				    ? -1
				    : 1;
		else
			n = urxe_libc.sendmmsg(job->fd, &tx.msgs[done], runs - done, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EAGAIN;
		for (; n > 0; n--, done++) {
			*sent += tx.run_packets[done];
			counters[URXE_CNT_SENT_PKTS] += tx.run_packets[done];
			counters[URXE_CNT_SENT_BYTES] += tx.run_bytes[done];
		}
	}
	return 0;
}

static bool is_full(int error)
{
	return error == -EAGAIN || error == -ENOBUFS || error == -ENOMEM;
}

/* Sockets give EINVAL for a source address that the host does not have (any more). */
static int path_error(struct send_job *job, int error)
{
	urxe_wire_counters(job->wire, job->path)[URXE_CNT_SEND_ERR]++;
	return error == -EINVAL ? -EADDRNOTAVAIL : error;
}

static int send_all(struct send_job *job, const struct urxe_tx_packet *pkts, unsigned n)
{
	const struct urxe_port *port = urxe_port(job->path->port);
	unsigned sent = 0;
	bool suspect = false;

	while (sent < n) {
		unsigned before = sent;
		unsigned runs = build(job, pkts + sent, n - sent);
		int ret;

		if (urxe_wire_payload_lost())
			return sent;
		ret = push(job, runs, &sent);

		/* A send without UDP_SEGMENT went where one with it did not: the netdev cannot. */
		if (suspect && sent > before && !job->port->no_gso) {
			job->port->no_gso = true;
			urxe_log(URXE_LOG_INFO, "%s: no UDP segmentation here, sending singly",
				 port ? port->netdev.name : "?");
		}
		if (!ret)
			break;
		if (is_full(ret))
			return sent;
		if ((ret == -EIO || ret == -EINVAL) && job->gso) {
			job->gso = false;
			suspect = true;
			continue;
		}
		return sent ? (int)sent : path_error(job, ret);
	}
	return n;
}

int urxe_roce_send_raw(struct urxe_wire *wire, const struct urxe_path *path, const void *packet,
		       uint32_t len)
{
	struct iovec iov = {(void *)packet, len};
	struct send_job job;
	unsigned sent = 0;
	int ret = job_init(&job, wire, path);

	if (ret)
		return ret;
	tx.run_packets[0] = 1;
	tx.run_bytes[0] = len;
	tx.msgs[0].msg_hdr = (struct msghdr){
		.msg_name = &job.to,
		.msg_namelen = job.to_len,
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = job.control,
		.msg_controllen = job.control_len,
	};
	ret = push(&job, 1, &sent);
	return !ret || is_full(ret) ? ret : path_error(&job, ret);
}

/* Each packet whole, one by one, through the dice: lost on purpose counts as sent. */
static int send_faulty(struct send_job *job, const struct urxe_tx_packet *pkts, unsigned n)
{
	uint8_t packet[URXE_MAX_HEADER + URXE_MAX_PAYLOAD + 8];

	for (unsigned k = 0; k < n; k++) {
		uint32_t len = packet_len(&pkts[k]);
		struct urxe_record datagram = {.len = len, .bytes = packet};
		uint32_t body = len - URXE_ICRC_LEN;
		uint8_t *end;

		if (len > sizeof(packet))
			return -EMSGSIZE;
		memcpy(packet, pkts[k].header, pkts[k].header_len);
		end = copy_payload(packet + pkts[k].header_len, &pkts[k]);
		memset(end, 0, packet + body - end);
		if (urxe_wire_payload_lost())
			return k;
		urxe_icrc_store(packet + body, urxe_icrc_bth(prefix_of(job, len, 0), packet, body));
		urxe_fault_out(job->wire, job->path, 0, &datagram, NULL);
	}
	return n;
}

/* No more than a receiver on this host has room for. */
static int send_counted(struct send_job *job, struct urxe_tx_packet *pkts, unsigned n)
{
	unsigned admitted = urxe_flow_admit(job->wire, job->path, pkts, n), sent;
	int ret;

	if (!admitted)
		return 0;
	ret = send_all(job, pkts, admitted);
	sent = ret < 0 ? 0 : ret;
	urxe_flow_unsent(job->wire, job->path, pkts + sent, admitted - sent);
	return ret;
}

int urxe_roce_send(struct urxe_wire *wire, const struct urxe_path *path,
		   struct urxe_tx_packet *pkts, unsigned n)
{
	struct send_job job;
	int ret;

	ret = job_init(&job, wire, path);
	if (ret)
		return ret;
	if (urxe_fault_active(&job.port->fault, URXE_FAULT_OUT))
		return send_faulty(&job, pkts, n);
	return send_counted(&job, pkts, n);
}

static unsigned slot_of(struct urxe_wire *wire, const struct urxe_path *path, const void *bth)
{
	return urxe_shm_slot(wire, path, urxe_bth_qpn(bth));
}

/* Packets of one path may be for several processes of this host. */
static int send_here(struct urxe_wire *wire, const struct urxe_path *path,
		     struct urxe_tx_packet *pkts, unsigned n)
{
	const struct urxe_link_ops *ops = urxe_link_of(path);
	unsigned sent = 0;

	while (sent < n) {
		unsigned slot = slot_of(wire, path, pkts[sent].header), count = 1;
		struct urxe_link *link = urxe_shm_link(wire, slot);
		int ret;

		while (sent + count < n && slot_of(wire, path, pkts[sent + count].header) == slot)
			count++;
		ret = link ? urxe_shm_send(wire, link, path, pkts + sent, count)
			   : ops->send(wire, path, pkts + sent, count);
		if (ret < 0)
			return sent ? (int)sent : ret;
		sent += ret;
		if ((unsigned)ret < count)
			break;
	}
	return sent;
}

int urxe_wire_send(struct urxe_wire *wire, const struct urxe_path *path,
		   struct urxe_tx_packet *pkts, unsigned n)
{
	if (n > URXE_TX_BATCH)
		n = URXE_TX_BATCH;
	if (wire->shm && path->here)
		return send_here(wire, path, pkts, n);
	return urxe_link_of(path)->send(wire, path, pkts, n);
}
