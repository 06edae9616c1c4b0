// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The receiver of MADs in segments (13.6; the kernel's mad_rmpp.c): puts segments together, opens
 * the window by 64 of them at a time, acknowledges what comes again, and gives up a sender that
 * stops. What is complete is kept for ten seconds without its data, so that a sender that missed
 * the last acknowledgement gets another. A segment that is not the next is dropped: the sender
 * begins again behind the last acknowledged one.
 *
 * What an agent holds of messages is bounded, in number and in bytes, because a peer that never
 * completes one costs memory for 40 seconds. What goes beyond is stopped for want of resources
 * (RESX), and counts as dropped by QP 1.
 *
 * One thread at a time.
 */
#include <stdlib.h>

#include "fabric/host.h"

#define WINDOW	   64
#define SILENCE_MS 40000
#define KEEP_MS	   10000

#define MOST_MESSAGES 1024
#define MOST_BYTES    (2 * (size_t)FABRIC_MAX_MAD)

#define STATUS_RESX 1 /* of RMPP_STOP */

/* Why a segment is refused (13.6.2.1). */
enum { BAD_FIRST = 120, BAD_TYPE, BAD_STATUS = 124, BAD_VERSION };

struct reassembly {
	struct reassembly *link;
	struct timer timer;
	struct agent *agent;
	uint64_t tid;
	uint8_t class, method;
	bool complete;
	uint32_t segment, window; /* received up to; allowed up to */
	uint8_t *data;
	size_t len, room;
	struct packet first;
};

static void acknowledge(struct mads *m, const struct packet *p, uint8_t type, uint8_t status,
			uint32_t segment, uint32_t window)
{
	struct packet *a = m->ops->room(m);
	uint8_t *mad = a->mad;

	*a = *p;
	m->ops->turn(m, a);
	memset(mad + class_header_len(mad[MAD_CLASS]), 0,
	       MAD_LEN - class_header_len(mad[MAD_CLASS]));
	/* It goes the other way as the data does: to an agent by its methods or its transaction ID.
	 * */
	mad[MAD_METHOD] ^= METHOD_RESP;
	mad[RMPP_VERSION] = 1;
	mad[RMPP_TYPE] = type;
	mad[RMPP_FLAGS] = (mad[RMPP_FLAGS] & 0xf8) | RMPP_ACTIVE;
	mad[RMPP_STATUS] = status;
	put32(mad + RMPP_SEGMENT, segment);
	put32(mad + RMPP_PAYLEN, window);
	m->ops->send(m);
}

static void refuse(struct mads *m, const struct packet *p, uint8_t status)
{
	acknowledge(m, p, RMPP_ABORT, status, 0, 0);
}

static void forget_data(struct reassembly *r)
{
	r->agent->reassembly_bytes -= r->room;
	free(r->data);
	r->data = NULL;
	r->len = r->room = 0;
}

static void drop(struct mads *m, struct reassembly *r)
{
	struct reassembly **at = &r->agent->reassemblies;

	while (*at != r)
		at = &(*at)->link;
	*at = r->link;
	r->agent->num_reassemblies--;
	timer_stop(&m->timers, &r->timer);
	forget_data(r);
	free(r);
}

/* There is no room for a segment. r: of its message, which ends; NULL: it was to begin. */
static void stop(struct mads *m, struct reassembly *r, const struct packet *p)
{
	acknowledge(m, p, RMPP_STOP, STATUS_RESX, 0, 0);
	m->ops->dropped(m, p);
	if (r)
		drop(m, r);
}

static void timed_out(struct timer *timer, void *arg)
{
	drop(arg, (struct reassembly *)((char *)timer - offsetof(struct reassembly, timer)));
}

static bool same_sender(const struct packet *a, const struct packet *b)
{
	return a->slid == b->slid && a->src_qp == b->src_qp && a->grh_present == b->grh_present &&
	       (!a->grh_present || !memcmp(a->sgid, b->sgid, sizeof(a->sgid)));
}

static struct reassembly *find(const struct agent *agent, const struct packet *p)
{
	uint64_t tid = get64(p->mad + MAD_TID);
	struct reassembly *r = agent->reassemblies;

	while (r && (r->tid != tid || !same_sender(&r->first, p) || r->class != p->mad[MAD_CLASS] ||
		     r->method != p->mad[MAD_METHOD]))
		r = r->link;
	return r;
}

/* Room for one more: a message that is complete is kept only for a lost acknowledgement. */
static bool make_room(struct mads *m, const struct agent *agent)
{
	struct reassembly *oldest = NULL;

	if (agent->num_reassemblies < MOST_MESSAGES)
		return true;
	for (struct reassembly *r = agent->reassemblies; r; r = r->link)
		if (r->complete)
			oldest = r;
	if (oldest)
		drop(m, oldest);
	return oldest;
}

static struct reassembly *begin(struct mads *m, struct agent *agent, const struct packet *p)
{
	struct reassembly *r = make_room(m, agent) ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return NULL;
	r->agent = agent;
	r->tid = get64(p->mad + MAD_TID);
	r->class = p->mad[MAD_CLASS];
	r->method = p->mad[MAD_METHOD];
	r->window = WINDOW;
	r->first = *p;
	r->link = agent->reassemblies;
	agent->reassemblies = r;
	agent->num_reassemblies++;
	return r;
}

static bool append(struct reassembly *r, const uint8_t *bytes, size_t len)
{
	if (r->len + len > FABRIC_MAX_MAD)
		return false;
	if (r->len + len > r->room) {
		size_t room = 2 * (r->len + len) + 4096, more = room - r->room;
		uint8_t *larger = NULL;

		if (more <= MOST_BYTES - r->agent->reassembly_bytes)
			larger = realloc(r->data, room);
		if (!larger)
			return false;
		r->data = larger;
		r->room = room;
		r->agent->reassembly_bytes += more;
	}
	memcpy(r->data + r->len, bytes, len);
	r->len += len;
	return true;
}

/* How much of a segment behind the headers is data. */
static size_t data_of(const uint8_t *mad, unsigned header)
{
	uint32_t paylen = get32(mad + RMPP_PAYLEN), most = MAD_LEN - MAD_RMPP_LEN;

	if (!(mad[RMPP_FLAGS] & RMPP_LAST) || paylen > most || paylen < header - MAD_RMPP_LEN)
		return MAD_LEN - header;
	return paylen - (header - MAD_RMPP_LEN);
}

static void finish(struct mads *m, struct reassembly *r, struct send *send, const struct packet *p)
{
	struct agent *agent = r->agent;
	bool wanted = send || !mad_is_response(p->mad);

	acknowledge(m, p, RMPP_ACK, 0, r->segment, r->window);
	r->complete = true;
	timer_start(&m->timers, &r->timer, m->now + KEEP_MS, timed_out);
	if (send)
		host_send_end(m, send, 0);
	if (wanted)
		host_deliver(m, agent, &r->first, r->data, r->len);
	forget_data(r);
}

static void next_segment(struct mads *m, struct reassembly *r, struct send *send,
			 const struct packet *p)
{
	unsigned header = class_header_len(p->mad[MAD_CLASS]);

	if ((!r->segment && !append(r, p->mad, header)) ||
	    !append(r, p->mad + header, data_of(p->mad, header))) {
		stop(m, r, p);
		return;
	}
	r->segment++;
	if (send) {
		send->answered_by_rmpp = true;
		host_send_wait(m, send);
	}
	if (p->mad[RMPP_FLAGS] & RMPP_LAST) {
		finish(m, r, send, p);
		return;
	}
	timer_start(&m->timers, &r->timer, m->now + SILENCE_MS, timed_out);
	/* The first is acknowledged at once, for it is all that the sender's window lets it send.
	 * */
	if (r->segment == 1 || r->segment == r->window) {
		r->window = r->segment + WINDOW;
		acknowledge(m, p, RMPP_ACK, 0, r->segment, r->window);
	}
}

static uint8_t fault_of(const uint8_t *mad)
{
	bool first = mad[RMPP_FLAGS] & RMPP_FIRST;

	if (mad[RMPP_VERSION] != 1)
		return BAD_VERSION;
	if (mad[RMPP_TYPE] != RMPP_DATA)
		return BAD_TYPE;
	if (mad[RMPP_STATUS])
		return BAD_STATUS;
	return first != (get32(mad + RMPP_SEGMENT) == 1) ? BAD_FIRST : 0;
}

void rmpp_receive(struct mads *m, struct agent *agent, struct send *send, const struct packet *p)
{
	uint32_t segment = get32(p->mad + RMPP_SEGMENT);
	struct reassembly *r = find(agent, p);

	if (fault_of(p->mad)) {
		refuse(m, p, fault_of(p->mad));
		return;
	}
	if (!segment)
		return;
	/* A new message under an old number: the program asks again. */
	if (r && r->complete && segment == 1 && send) {
		drop(m, r);
		r = NULL;
	}
	if (!r && segment != 1)
		return;
	if (!r)
		r = begin(m, agent, p);
	if (!r)
		stop(m, NULL, p);
	else if (segment == r->segment + 1 && !r->complete)
		next_segment(m, r, send, p);
	else if (segment <= r->segment)
		acknowledge(m, p, RMPP_ACK, 0, r->segment, r->window);
}

void rmpp_receive_all_end(struct mads *m, struct agent *agent)
{
	while (agent->reassemblies)
		drop(m, agent->reassemblies);
}
