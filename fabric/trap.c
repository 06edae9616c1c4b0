// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Notices that ports send to their subnet manager (13.4.9, 14.2.5.1): link state (128, of
 * switches), local link integrity (129), changed capabilities or NodeDescription (144), bad M_Key
 * (256), P_Key (257) and Q_Key (258). A trap is sent again every second until a TrapRepress names
 * it. What happens meanwhile sends it at once, though no more than ten times in five seconds,
 * beyond which OpenSM takes it for a port gone mad and ignores it. fabricd's thread.
 */
#include <stdlib.h>

#include "fabric/fabric.h"

#define REPEAT_MS    1000
#define LEAST_MS     600
#define NOTICE_LEN   64
#define MOST_NOTICES 8

enum { URGENT = 1, SECURITY = 2, INFORMATIONAL = 4 };
/* Of trap 144: the capability mask is not all that changed; NodeDescription did. */
enum { OTHER_CHANGES = 1, DESCRIPTION_CHANGED = 1 };

/* What of a notice tells it from others: not its count. */
struct notice {
	struct notice *link;
	struct timer timer;
	uint32_t port; /* index */
	uint64_t sent; /* when; 0: never */
	uint64_t tid;
	uint8_t data[NOTICE_LEN];
};

static struct notice *of_timer(struct timer *timer)
{
	return (struct notice *)((char *)timer - offsetof(struct notice, timer));
}

static void send_notice(struct timer *timer, void *arg)
{
	struct notice *notice = of_timer(timer);
	struct fabric *f = arg;
	struct fabric_port *port = port_at(f, notice->port);
	uint16_t sm = get16(port->info + PI_SM_LID);
	struct packet *p;

	timer_start(&f->mads.timers, timer, f->mads.now + REPEAT_MS, send_notice);
	if (!sm || !fabric_port_lid(port))
		return; /* nobody manages this port yet */
	notice->sent = f->mads.now;
	p = fabric_send_room(f);
	memset(p, 0, sizeof(*p));
	p->port = notice->port;
	p->slid = fabric_port_lid(port);
	p->dlid = sm;
	p->sl = lo4(port->info[PI_MTU_SMSL]);
	p->pkey = 0xffff;
	p->mad[MAD_BASE_VERSION] = 1;
	p->mad[MAD_CLASS] = CLASS_SUBN_LID;
	p->mad[MAD_CLASS_VERSION] = 1;
	p->mad[MAD_METHOD] = METHOD_TRAP;
	put64(p->mad + MAD_TID, notice->tid);
	put16(p->mad + MAD_ATTR, ATTR_NOTICE);
	memcpy(p->mad + SMP_DATA, notice->data, NOTICE_LEN);
	put16(p->mad + SMP_DATA + 6, fabric_port_lid(port));
	fabric_send_done(f);
}

static struct notice **find(struct fabric *f, uint32_t node, const struct fabric_port *port,
			    unsigned number)
{
	struct notice **at = &f->nodes[node].notices;

	while (*at && ((*at)->port != index_of(f, port) || get16((*at)->data + 4) != number))
		at = &(*at)->link;
	return at;
}

static uint8_t type_of(unsigned number)
{
	if (number == TRAP_LINK_STATE || number == TRAP_LINK_INTEGRITY)
		return URGENT;
	return number >= TRAP_BAD_MKEY ? SECURITY : INFORMATIONAL;
}

void trap_raise(struct fabric *f, struct fabric_port *port, unsigned number, const uint8_t *details,
		size_t len)
{
	struct notice **at = find(f, port->node, port, number), *notice = *at;

	if (!notice) {
		notice = calloc(1, sizeof(*notice));
		if (!notice)
			return;
		*at = notice;
		notice->port = index_of(f, port);
		notice->tid = ((uint64_t)port->node << 32) | ++f->nodes[port->node].trap_tid;
		notice->data[0] = 0x80 | type_of(number);
		notice->data[3] = node_of(f, port)->type;
		put16(notice->data + 4, number);
	}
	memset(notice->data + 10, 0, NOTICE_LEN - 10);
	memcpy(notice->data + 10, details, len);
	timer_start(&f->mads.timers, &notice->timer,
		    notice->sent && notice->sent + LEAST_MS > f->mads.now ? notice->sent + LEAST_MS
									  : f->mads.now,
		    send_notice);
}

static void drop(struct fabric *f, struct notice **at)
{
	struct notice *notice = *at;

	timer_stop(&f->mads.timers, &notice->timer);
	*at = notice->link;
	free(notice);
}

void trap_repress(struct fabric *f, struct fabric_port *port, const uint8_t *mad)
{
	const uint8_t *d = mad + SMP_DATA;
	struct notice **at = find(f, port->node, port, get16(d + 4));

	/* What was changed since must be told again. */
	if (*at && !memcmp((*at)->data + 10, d + 10, NOTICE_LEN - 10))
		drop(f, at);
}

void trap_forget(struct fabric *f, struct fabric_node *node)
{
	struct node_private *mine = &f->nodes[node - fabric_map_node(f->map, 0)];

	while (mine->notices)
		drop(f, &mine->notices);
}

void trap_link_state(struct fabric *f, struct fabric_node *node)
{
	struct fabric_port *port = fabric_node_port(f->map, node, 0);
	uint8_t details[2];

	if (!get16(port->info + PI_SM_LID))
		return; /* its future manager finds it so */
	put16(details, fabric_port_lid(port));
	trap_raise(f, port, TRAP_LINK_STATE, details, sizeof(details));
}

void trap_capabilities(struct fabric *f, struct fabric_port *port)
{
	uint8_t details[14] = {0};

	if (!get16(port->info + PI_SM_LID))
		return;
	put16(details + 2, fabric_port_lid(port));
	memcpy(details + 6, port->info + PI_CAP, 4);
	trap_raise(f, port, TRAP_CAPABILITIES, details, sizeof(details));
}

void trap_description(struct fabric *f, struct fabric_port *port)
{
	uint8_t details[14] = {0};

	if (!get16(port->info + PI_SM_LID) || !link_up(port))
		return;
	put16(details + 2, fabric_port_lid(port));
	details[5] = OTHER_CHANGES;
	memcpy(details + 6, port->info + PI_CAP, 4);
	put16(details + 10, DESCRIPTION_CHANGED);
	trap_raise(f, port, TRAP_CAPABILITIES, details, sizeof(details));
}

void trap_bad_mkey(struct fabric *f, struct fabric_port *port, const struct packet *p)
{
	const uint8_t *mad = p->mad;
	uint8_t details[54] = {0};
	uint8_t hops = mad[SMP_HOP_COUNT];

	put16(details + 2, fabric_port_lid(port));
	put16(details + 4, get16(mad + SMP_DR_SLID));
	details[6] = mad[MAD_METHOD];
	memcpy(details + 8, mad + MAD_ATTR, 2);
	memcpy(details + 10, mad + MAD_MOD, 4);
	memcpy(details + 14, mad + SMP_MKEY, 8);
	if (mad[MAD_CLASS] == CLASS_SUBN_DR && hops <= SMP_MAX_HOPS) {
		bool truncated = hops > 30;

		details[23] = 0x80 | truncated << 6 | (truncated ? 30 : hops);
		memcpy(details + 24, mad + SMP_RET_PATH + 1, truncated ? 30 : hops);
	} else {
		put16(details + 4, p->slid);
	}
	trap_raise(f, port, TRAP_BAD_MKEY, details, sizeof(details));
}

/* Traps 257 and 258 have the same details; the key is the packet's P_Key or its Q_Key. */
static void bad_key(struct fabric *f, struct fabric_port *port, const struct packet *p,
		    unsigned number, uint32_t key)
{
	uint8_t details[54] = {0};

	if (!get16(port->info + PI_SM_LID))
		return;
	put16(details + 2, p->slid);
	put16(details + 4, p->dlid);
	put32(details + 6, key);
	put32(details + 10, (uint32_t)p->sl << 28 | p->src_qp);
	put32(details + 14, p->dst_qp);
	memcpy(details + 18, p->sgid, 16);
	memcpy(details + 34, p->dgid, 16);
	trap_raise(f, port, number, details, sizeof(details));
}

void trap_bad_pkey(struct fabric *f, struct fabric_port *port, const struct packet *p)
{
	bad_key(f, port, p, TRAP_BAD_PKEY, p->pkey);
}

void trap_bad_qkey(struct fabric *f, struct fabric_port *port, const struct packet *p)
{
	bad_key(f, port, p, TRAP_BAD_QKEY, p->qkey);
}

void trap_link_integrity(struct fabric *f, struct fabric_port *port)
{
	struct fabric_port *end = end_port(f, port);
	uint8_t details[5] = {0};

	if (!get16(end->info + PI_SM_LID))
		return;
	put16(details + 2, fabric_port_lid(end));
	details[4] = port->num;
	trap_raise(f, end, TRAP_LINK_INTEGRITY, details, sizeof(details));
}
