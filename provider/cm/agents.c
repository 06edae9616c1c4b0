// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The MAD layer on QP 1 (agents.h). It runs while this process has a umad file open: the engine is
 * held, all classes but those that have users of their own (hca/gsi.h) come here, and timers run
 * with the engine's. RoCE has no LIDs: packets always have a GRH, and what it says of a sender goes
 * into the header that the program reads.
 *
 * Everything is under the engine's lock; agents_lock, which is taken before it, guards the list of
 * files, and with it the start and the end.
 */
#include "cm/agents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "fabric/host.h"
#include "hca/adapter.h"
#include "hca/gsi.h"
#include "host/mad_agent.h"
#include "host/mutex.h"
#include "host/segment_ports.h"

#define NS_PER_MS 1000000ull

struct urxe_agents {
	struct urxe_agents *link;
	struct urxe_port *port;
	urxe_agents_deliver_fn *deliver;
	void *arg;
	struct agent *agents[FABRIC_AGENTS];
	uint32_t rows[FABRIC_AGENTS]; /* of the host segment; 0: none */
};

static URXE_MUTEX(agents_lock);
static struct urxe_agents *files;
static struct mads *mads;

/* ---- packets ---- */

static int make_path(const struct urxe_port *port, const uint8_t dgid[16], int sgid_index,
		     const struct packet *p, struct urxe_path *path)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = port->num,
		.grh = {.sgid_index = sgid_index,
			.flow_label = p->flow_label,
			.hop_limit = p->hop_limit,
			.traffic_class = p->traffic_class},
	};

	memcpy(&attr.grh.dgid, dgid, sizeof(attr.grh.dgid));
	return urxe_link_of_port(port)->resolve(path, port, &attr, 0);
}

/* As rdma_create_user_ah(): RoCE has no address handles without a GRH, or to where there is no
 * route. */
static int check(struct mads *m, const struct agent *agent, const struct ib_user_mad_hdr *h,
		 const uint8_t *mad)
{
	const struct urxe_port *port = urxe_port(agent->port);
	struct packet p = {.hop_limit = h->hop_limit};
	struct urxe_path path;
	union ibv_gid gid;

	if (!h->grh_present || h->gid_index >= URXE_MAX_GIDS)
		return EINVAL;
	if (!urxe_port_gid(port, h->gid_index, &gid))
		return ENODATA;
	return make_path(port, h->gid, h->gid_index, &p, &path) ? ENETUNREACH : 0;
}

static void address(struct mads *m, const struct agent *agent, const struct ib_user_mad_hdr *h,
		    struct packet *p)
{
	const struct urxe_port *port = urxe_port(agent->port);
	uint16_t pkey = urxe_port_pkey(port, h->pkey_index);
	union ibv_gid gid;

	urxe_port_gid(port, h->gid_index, &gid);
	*p = (struct packet){
		.port = agent->port,
		.grh_present = 1,
		.src_qp = URXE_GSI_QPN,
		.dst_qp = be32toh(h->qpn),
		.qkey = be32toh(h->qkey),
		.pkey = pkey ? pkey : urxe_port_pkey(port, 0),
		.flow_label = be32toh(h->flow_label),
		.traffic_class = h->traffic_class,
		.hop_limit = h->hop_limit,
	};
	memcpy(p->sgid, &gid, sizeof(p->sgid));
	memcpy(p->dgid, h->gid, sizeof(p->dgid));
}

static int own_gid_index(const struct packet *p, const uint8_t gid[16])
{
	union ibv_gid own;

	memcpy(&own, gid, sizeof(own));
	return urxe_port_gid_index(urxe_port(p->port), &own);
}

static void describe(struct mads *m, const struct packet *p, struct ib_user_mad_hdr *h)
{
	int gid = own_gid_index(p, p->dgid),
	    pkey = urxe_port_partition(urxe_port(p->port), p->pkey);

	h->gid_index = gid < 0 ? 0 : gid;
	h->pkey_index = pkey < 0 ? 0 : pkey;
}

static void turn(struct mads *m, struct packet *p)
{
	uint32_t qp = p->src_qp;
	uint8_t gid[16];

	p->src_qp = p->dst_qp;
	p->dst_qp = qp;
	memcpy(gid, p->sgid, sizeof(gid));
	memcpy(p->sgid, p->dgid, sizeof(gid));
	memcpy(p->dgid, gid, sizeof(gid));
}

/* One at a time: a packet is sent before the next is made. */
static struct packet outgoing;

static struct packet *room(struct mads *m)
{
	return &outgoing;
}

static void send_out(struct mads *m)
{
	struct urxe_segment *seg = urxe_adapter_segment();
	const struct packet *p = &outgoing;
	const struct urxe_port *port = urxe_port(p->port);
	int sgid = own_gid_index(p, p->sgid);
	struct urxe_path path;
	unsigned slot = 0;

	if (sgid < 0 || make_path(port, p->dgid, sgid, p, &path))
		return;
	if (p->dst_qp == URXE_GSI_QPN && own_gid_index(p, p->dgid) >= 0)
		slot = urxe_mad_agent_owner(seg, urxe_port_ifindex(port), p->mad);
	/* What the ring of a process that has just died took would get no answer. */
	if (slot && !urxe_segment_slot_alive(seg, slot))
		slot = 0;
	urxe_gsi_send_qp(&path, p->pkey, slot, p->dst_qp, p->qkey, p->mad);
}

static void deliver(struct mads *m, void *arg, const uint8_t *hdr, const uint8_t *mad, uint32_t len)
{
	struct urxe_agents *file = arg;

	file->deliver(file->arg, hdr, mad, len);
}

/* QP 1 has dropped those already. */
static void bad_qkey(struct mads *m, const struct packet *p)
{
}

static void dropped(struct mads *m, const struct packet *p)
{
	urxe_gsi_dropped(p->port);
}

static const struct mads_ops ops = {
	.check = check,
	.address = address,
	.describe = describe,
	.turn = turn,
	.room = room,
	.send = send_out,
	.deliver = deliver,
	.bad_qkey = bad_qkey,
	.dropped = dropped,
};

/* ---- QP 1 ---- */

static void receive(const struct urxe_gsi_rx *gsi)
{
	const struct urxe_path *path = &gsi->rx->path;
	union ibv_gid dst, src;
	struct packet p = {
		.port = path->port,
		.grh_present = 1,
		.pkey = gsi->pkey,
		.src_qp = gsi->src_qpn,
		.dst_qp = URXE_GSI_QPN,
		.qkey = GSI_QKEY,
		.traffic_class = path->roce.traffic_class,
		.hop_limit = 0xff, /* ib_init_ah_attr_from_wc() */
	};

	if (!urxe_port(path->port))
		return;
	urxe_link_of(path)->gids(path, &src, &dst);
	memcpy(p.sgid, &src, sizeof(p.sgid));
	memcpy(p.dgid, &dst, sizeof(p.dgid));
	memcpy(p.mad, gsi->mad, sizeof(p.mad));
	mads->now = urxe_adapter_clock() / NS_PER_MS;
	host_receive(mads, &p);
}

static uint64_t deadline(void)
{
	int ms = timers_wait(&mads->timers, mads->timers.done);

	return ms < 0 ? UINT64_MAX : (mads->timers.done + ms) * NS_PER_MS;
}

static void run(uint64_t now)
{
	mads->now = now / NS_PER_MS;
	timers_run(&mads->timers, mads->now);
}

/* As ib_umad_kill_port(): files of a device that is gone have no agents. */
static void port_event(struct urxe_port *port, enum ibv_event_type event)
{
	if (!urxe_port_is_gone(port))
		return;
	for (struct urxe_agents *file = files; file; file = file->link)
		if (file->port == port)
			file->deliver(file->arg, NULL, NULL, 0);
}

static const struct urxe_gsi_user gsi_user = {
	.mgmt_class = URXE_GSI_ANY_CLASS,
	.receive = receive,
	.deadline = deadline,
	.run = run,
	.port_event = port_event,
};

/* ---- files ---- */

static void destroy(void)
{
	mads_destroy(mads);
	free(mads);
	mads = NULL;
}

static int start_locked(void)
{
	uint32_t number = 0;
	int ret;

	mads = calloc(1, sizeof(*mads));
	if (!mads)
		return -ENOMEM;
	mads->now = urxe_adapter_clock() / NS_PER_MS;
	timers_init(&mads->timers, mads->now, mads);
	/* Answers to the requests of the process that had this slot before are nobody's. */
	(void)!getrandom(&number, sizeof(number), 0);
	mads->next_agent = urxe_mad_tid(urxe_segment_slot(urxe_adapter_segment()), number);
	ret = mads_create(mads, URXE_MAX_PORTS, &ops);
	mads->agent_step = URXE_MAD_TID_STEP;
	if (!ret)
		ret = urxe_gsi_register(&gsi_user);
	if (ret)
		destroy();
	return ret;
}

static int start(void)
{
	int ret = urxe_engine_get();

	if (ret)
		return ret;
	urxe_engine_lock();
	ret = start_locked();
	urxe_engine_unlock();
	if (ret)
		urxe_engine_put();
	return ret;
}

static void stop(void)
{
	urxe_engine_lock();
	urxe_gsi_unregister(&gsi_user);
	destroy();
	urxe_engine_unlock();
	urxe_engine_put();
}

int urxe_agents_open(struct urxe_port *port, urxe_agents_deliver_fn *deliver_fn, void *arg,
		     struct urxe_agents **out)
{
	struct urxe_agents *file = calloc(1, sizeof(*file));
	int ret = 0;

	if (!file)
		return -ENOMEM;
	file->port = port;
	file->deliver = deliver_fn;
	file->arg = arg;
	pthread_mutex_lock(&agents_lock);
	if (!files)
		ret = start();
	if (!ret) {
		urxe_engine_lock();
		file->link = files;
		files = file;
		urxe_engine_unlock();
	}
	pthread_mutex_unlock(&agents_lock);
	if (ret)
		free(file);
	else
		*out = file;
	return ret;
}

static void unregister(struct urxe_agents *file, unsigned id)
{
	if (!file->agents[id])
		return;
	if (file->rows[id])
		urxe_segment_port_release(urxe_adapter_segment(), file->rows[id]);
	host_unregister(mads, file->agents[id]);
	file->agents[id] = NULL;
	file->rows[id] = 0;
}

void urxe_agents_close(struct urxe_agents *file)
{
	struct urxe_agents **at = &files;

	pthread_mutex_lock(&agents_lock);
	urxe_engine_lock();
	for (unsigned i = 0; i < FABRIC_AGENTS; i++)
		unregister(file, i);
	while (*at != file)
		at = &(*at)->link;
	*at = file->link;
	urxe_engine_unlock();
	if (!files)
		stop();
	pthread_mutex_unlock(&agents_lock);
	free(file);
}

/* The kernel's own agent: ib_cm's. */
static bool is_reserved(const struct fabric_request *r)
{
	return r->mgmt_class == CLASS_CM && r->class_version == 2 &&
	       r->method_mask[0] & 1ull << METHOD_SEND;
}

/* What no other process may have; an agent without a class only sends. */
static int claim(const struct urxe_agents *file, const struct fabric_request *r, uint32_t *row)
{
	struct urxe_mad_agent agent = {
		.ifindex = urxe_port_ifindex(file->port),
		.mgmt_class = r->mgmt_class,
		.class_version = r->class_version,
		.oui = class_is_vendor2(r->mgmt_class) ? r->oui : 0,
		.methods = {r->method_mask[0], r->method_mask[1]},
	};

	if (!r->mgmt_class)
		return 0;
	return is_reserved(r) ? -EINVAL : urxe_mad_agent_add(urxe_adapter_segment(), &agent, row);
}

static int register_locked(struct urxe_agents *file, const struct fabric_request *r)
{
	unsigned id = 0;
	int ret;

	while (id < FABRIC_AGENTS && file->agents[id])
		id++;
	if (id == FABRIC_AGENTS)
		return -ENOMEM;
	/* No QP 0 (mad.c: rdma_cap_ib_smi). */
	if (!r->qpn)
		return -EPROTONOSUPPORT;
	ret = -host_register(mads, file, file->port->index, r, id, &file->agents[id]);
	if (ret)
		return ret;
	ret = claim(file, r, &file->rows[id]);
	if (ret)
		unregister(file, id);
	return ret ? ret : (int)id;
}

int urxe_agents_register(struct urxe_agents *file, const struct fabric_request *r)
{
	int ret;

	urxe_engine_lock();
	ret = urxe_port_is_gone(file->port) ? -EIO : register_locked(file, r);
	urxe_engine_unlock();
	return ret;
}

void urxe_agents_unregister(struct urxe_agents *file, unsigned id)
{
	urxe_engine_lock();
	unregister(file, id % FABRIC_AGENTS);
	urxe_engine_unlock();
}

int urxe_agents_send(struct urxe_agents *file, const uint8_t *umad, size_t len)
{
	const struct ib_user_mad_hdr *h = (const void *)umad;
	struct agent *agent;
	int ret = -EIO;

	urxe_engine_lock();
	agent = h->id < FABRIC_AGENTS ? file->agents[h->id] : NULL;
	if (agent && !urxe_port_is_gone(file->port)) {
		mads->now = urxe_adapter_clock() / NS_PER_MS;
		ret = -host_send(mads, agent, umad, len);
	}
	urxe_engine_unlock();
	return ret;
}

void urxe_agents_forked(void)
{
	files = NULL;
	mads = NULL;
}
