/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The connection manager on the engine: its messages go out on QP 1, those that come in go to the
 * process that they concern, its timers run with the engine's, and what happens to devices and to
 * other processes of the host is passed on to the process that it concerns.
 *
 * A message names the communication ID of its receiver, in which is the slot of a process. A REQ or
 * SIDR_REQ does not: the shared port space says which process listens. Where that process is gone,
 * or no process listens, the one that got the message answers it.
 *
 * Everything is under the engine lock. users and held are under manager_lock, which is taken before
 * it.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "cm/id.h"
#include "cm/manager.h"
#include "hca/adapter.h"
#include "hca/gsi.h"
#include "cm/port_space.h"
#include "host/mutex.h"
#include "host/segment_records.h"

_Static_assert(sizeof(struct urxe_cm_record) <= URXE_RECORD_BYTES, "a record on file");
_Static_assert(URXE_MAD_SIZE == URXE_MAD_BYTES, "one size");

#define ASK_ALL_MOST 200 /* in a second */

static URXE_MUTEX(manager_lock);
static unsigned users; /* open files */
static bool held;      /* the engine is held and the manager runs */
static struct urxe_cm *manager;

/* A request as listeners are looked for. */
struct request {
	uint64_t service_id;
	const uint8_t *data;
	unsigned len;
	uint32_t host; /* that it is for (wire/link.h) */
	union ibv_gid gid;
	const struct urxe_port *port; /* of this host, by which it comes or goes */
};

/* The listener for it: a slot (0: nobody) and the handle of an id of that process. */
static unsigned find_listener(const struct request *req, uint32_t *handle)
{
	struct urxe_segment *seg = urxe_adapter_segment();
	uint32_t ifindex = urxe_port_ifindex(req->port);
	struct urxe_cma_header header;
	struct in6_addr daddr;
	uint16_t ps, port;
	unsigned slot;

	if (!urxe_cma_service_port(req->service_id, &ps, &port))
		return 0;
	if (req->len >= URXE_CMA_HEADER && !urxe_cma_decode(&header, req->data) &&
	    urxe_port_space_find(seg, req->host, ps, port, &header.destination, ifindex, &slot,
				 handle))
		return slot;
	/* Without addresses it can be for an AF_IB listener: the packet's own have to do. */
	memcpy(&daddr, &req->gid, sizeof(daddr));
	if (urxe_port_space_find(seg, req->host, ps, port, &daddr, ifindex, &slot, handle))
		return slot;
	return 0;
}

static uint32_t own_host(void)
{
	struct urxe_segment *seg = urxe_adapter_segment();

	return urxe_segment_slot_host(seg, urxe_segment_slot(seg));
}

static void *listener(struct urxe_cm *cm, const struct urxe_cm_event *event)
{
	const struct urxe_path *path = &event->path.av;
	struct request req = {
		.service_id = event->service_id,
		.data = event->private_data,
		.len = event->private_data_len,
		.host = own_host(),
		.port = urxe_port(path->port),
	};
	union ibv_gid theirs;
	struct urxe_id *id;
	uint32_t handle;

	urxe_link_of(path)->gids(path, &req.gid, &theirs);
	if (find_listener(&req, &handle) != urxe_segment_slot(urxe_adapter_segment()))
		return NULL;
	/* A listener that is gone leaves its row to requests that are repeated. */
	id = urxe_id_of_handle(handle);
	if (!id || id->state != URXE_ID_LISTEN ||
	    urxe_sockaddr_port(&id->src) != (uint16_t)req.service_id)
		return NULL;
	return id;
}

static void forget(struct urxe_cm *cm, uint32_t row)
{
	urxe_segment_records_clear(urxe_adapter_segment(), row);
}

static void record(struct urxe_cm *cm, const struct urxe_cm_record *rec, uint32_t *row)
{
	uint8_t bytes[URXE_RECORD_BYTES] = {0};
	uint32_t old = *row;

	memcpy(bytes, rec, sizeof(*rec));
	if (urxe_segment_records_put(urxe_adapter_segment(), URXE_RECORD_CONNECTION, bytes, row))
		*row = UINT32_MAX;
	if (old != UINT32_MAX)
		forget(cm, old);
}

/* The slot of the process that a MAD to the dst of a path is for, which is on that host; 0: nobody
 * that there is. -errno for what is none. */
static int slot_of_mad(const uint8_t *mad, const struct urxe_path *path, uint32_t host)
{
	struct request req = {.host = host, .port = urxe_port(path->port)};
	unsigned slot = urxe_steer_mad(mad);
	union ibv_gid src;
	uint32_t handle;

	if (!urxe_cm_is_cm(mad))
		return -EBADMSG;
	if (slot)
		return slot;
	if (!req.port || !urxe_cm_asks(mad, &req.service_id, &req.data, &req.len))
		return 0;
	urxe_link_of(path)->gids(path, &src, &req.gid);
	return find_listener(&req, &handle);
}

static int send_mad(struct urxe_cm *cm, const struct urxe_path *path, uint16_t pkey,
		    const uint8_t mad[URXE_MAD_SIZE])
{
	const struct urxe_link_ops *link = urxe_link_of(path);
	int slot = link->is_here(path) ? slot_of_mad(mad, path, link->host(path)) : 0;

	return urxe_gsi_send(path, pkey, slot > 0 ? slot : 0, mad);
}

/* Each becomes a datagram for every process of the host, and any peer may cause them. */
static bool within_limit(void)
{
	static uint64_t second;
	static unsigned count;

	if (urxe_adapter_now() - second > 1000000000ull) {
		second = urxe_adapter_now();
		count = 0;
	}
	return count++ < ASK_ALL_MOST;
}

static void receive(const struct urxe_gsi_rx *gsi)
{
	struct urxe_cm_rx rx = {.mad = gsi->mad,
				.path = &gsi->rx->path,
				.src_qpn = gsi->src_qpn,
				.pkey = gsi->pkey};
	int slot;

	if (!urxe_port(rx.path->port))
		return;
	slot = slot_of_mad(gsi->mad, rx.path, own_host());
	if (slot > 0 && slot != (int)urxe_segment_slot(urxe_adapter_segment())) {
		int ret = urxe_gsi_forward(gsi, slot);

		if (ret != -ESRCH && ret != -ELOOP)
			return;
	}
	if (!slot && urxe_cm_is_others(manager, &rx)) {
		if (within_limit())
			urxe_gsi_forward_all(gsi);
		return;
	}
	urxe_cm_receive(manager, &rx, urxe_adapter_now());
}

static uint64_t deadline(void)
{
	uint64_t connections = urxe_cm_deadline(manager), queries = urxe_id_query_deadline();

	return connections < queries ? connections : queries;
}

static void run(uint64_t now)
{
	urxe_cm_run(manager, now);
	urxe_id_query_run(now);
}

static void remove_device(struct urxe_id *id)
{
	struct urxe_id_mcast *mcast, *next;

	urxe_id_report(id, URXE_EVENT_DEVICE_REMOVAL, 0);
	urxe_id_drop_connection(id);
	cds_list_for_each_entry_safe (mcast, next, &id->mcasts, node)
		urxe_id_stop(mcast);
	urxe_id_unbind(id);
	id->state = URXE_ID_DEVICE_REMOVAL;
}

/* An id's port has changed: is its address still there, and the MAC that it was resolved with? */
static void port_changed(struct urxe_id *id, void *arg)
{
	struct urxe_port *port = arg;
	uint8_t mac[sizeof(id->mac)];
	bool same_mac;

	if (id->port != port || id->state == URXE_ID_DEVICE_REMOVAL)
		return;
	if (urxe_port_is_gone(port)) {
		remove_device(id);
		return;
	}
	urxe_port_mac(port, mac);
	same_mac = !memcmp(id->mac, mac, sizeof(mac));
	memcpy(id->mac, mac, sizeof(mac));
	if (urxe_port_gid_index(port, &id->sgid) >= 0) {
		id->addr_changed = false;
		if (same_mac)
			return;
	} else if (id->addr_changed) {
		return;
	} else {
		id->addr_changed = true;
	}
	urxe_id_report(id, URXE_EVENT_ADDR_CHANGE, 0);
}

static void mcasts_lost(struct urxe_id *id, void *port)
{
	if (id->port == port)
		urxe_id_mcasts_lost(id);
}

static void port_event(struct urxe_port *port, enum ibv_event_type event)
{
	urxe_id_each(port_changed, port);
	/* As the kernel's multicast.c: another subnet manager need not know the members. */
	if (event == IBV_EVENT_PORT_ERR || event == IBV_EVENT_LID_CHANGE ||
	    event == IBV_EVENT_CLIENT_REREGISTER)
		urxe_id_each(mcasts_lost, port);
}

/* The process that was asked about last: most connections of one go to a few others. */
struct asked {
	unsigned slot;
	bool alive;
};

/* Was the connection to a process of this host that is dead as well? */
static bool both_dead(const struct urxe_cm_record *rec, struct asked *asked)
{
	unsigned slot = urxe_comm_id_slot(rec->remote_id);

	if (!rec->remote_id || !urxe_link_of(&rec->path)->is_here(&rec->path))
		return false;
	if (slot != asked->slot)
		*asked =
			(struct asked){slot, urxe_segment_slot_alive(urxe_adapter_segment(), slot)};
	return !asked->alive;
}

static void adopt(const uint8_t *bytes, void *arg)
{
	struct urxe_cm_record rec;

	memcpy(&rec, bytes, sizeof(rec));
	if (urxe_adapter_adopt(&rec.path) && !both_dead(&rec, arg))
		urxe_cm_adopt(manager, &rec, urxe_adapter_now());
}

/* Ends its connections in its place: its peers get their DREQ or REJ. */
static void slot_died(unsigned slot)
{
	struct asked asked = {0};

	urxe_segment_records_walk(urxe_adapter_segment(), URXE_RECORD_CONNECTION, adopt, &asked);
}

static const struct urxe_gsi_user gsi_user = {
	.mgmt_class = URXE_MAD_CLASS_CM,
	.receive = receive,
	.deadline = deadline,
	.run = run,
	.port_event = port_event,
	.slot_died = slot_died,
};

/* Communication IDs have the slot of their process in them; requests are for the process that
 * listens. */
static const struct urxe_mad_rule rules[] = {
	{URXE_MAD_CLASS_CM, URXE_CM_REQ, 0},
	{URXE_MAD_CLASS_CM, URXE_CM_SIDR_REQ, 0},
	{URXE_MAD_CLASS_CM, URXE_CM_SIDR_REP, URXE_CM_LOCAL_ID_AT},
	{URXE_MAD_CLASS_CM, 0, URXE_CM_REMOTE_ID_AT},
};

void urxe_manager_init(void)
{
	urxe_steer_mads(rules, sizeof(rules) / sizeof(rules[0]));
	urxe_sa_init();
}

static const struct urxe_cm_ops ops = {
	.send = send_mad,
	.listener = listener,
	.request = urxe_id_request,
	.record = record,
	.forget = forget,
};

static int start(void)
{
	struct urxe_cm_config config = {.ops = &ops, .now = urxe_now()};
	int ret = urxe_engine_get();

	if (ret)
		return ret;
	(void)!getrandom(config.seed, sizeof(config.seed), 0);
	urxe_engine_lock();
	config.slot = urxe_segment_slot(urxe_adapter_segment());
	ret = urxe_cm_create(&manager, &config) ?: urxe_gsi_register(&gsi_user);
	if (ret && manager) {
		urxe_cm_destroy(manager);
		manager = NULL;
	}
	urxe_engine_unlock();
	if (ret)
		urxe_engine_put();
	return ret;
}

int urxe_manager_get(void)
{
	int ret = 0;

	pthread_mutex_lock(&manager_lock);
	if (!held)
		ret = start();
	if (!ret) {
		held = true;
		users++;
	}
	pthread_mutex_unlock(&manager_lock);
	return ret;
}

/* Connections that are not over yet keep it running, to see them through; the next file that is
 * closed has another look. */
static void put(bool at_once)
{
	struct urxe_cm_counts counts;
	bool stop = false;

	pthread_mutex_lock(&manager_lock);
	if (!--users) {
		urxe_engine_lock();
		urxe_cm_counts(manager, &counts);
		stop = at_once || !counts.ids;
		if (stop) {
			urxe_gsi_unregister(&gsi_user);
			urxe_cm_destroy(manager);
			manager = NULL;
		}
		urxe_engine_unlock();
	}
	if (stop) {
		held = false;
		urxe_engine_put();
	}
	pthread_mutex_unlock(&manager_lock);
}

void urxe_manager_put(void)
{
	put(false);
}

void urxe_manager_end(void)
{
	put(true);
}

struct urxe_cm *urxe_manager(void)
{
	return manager;
}

/* The parent's manager stays where it is: its memory is copied only where it is written. */
void urxe_manager_forked(void)
{
	users = 0;
	held = false;
	manager = NULL;
}
