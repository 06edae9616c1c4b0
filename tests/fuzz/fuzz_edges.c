// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The edges of the adapter that is fuzzed: a wire that keeps what is sent, neighbours that come and
 * go, a clock that stands still until it is moved, numbers in place of the host segment. One
 * thread.
 *
 * And notes of two runs of the same input, one with the adapter's short ways and one without.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz_edges.h"
#include "hca/completer.h"
#include "hca/device.h"
#include "hca/engine.h"
#include "hca/query.h"
#include "hca/requester.h"
#include "hca/responder.h"
#include "hca/service.h"
#include "host/guardian.h"
#include "host/segment_ports.h"
#include "host/segment_records.h"
#include "host/segment_window.h"
#include "host/sysinfo.h"
#include "wire/neighbour.h"
#include "wire/raw.h"

volatile bool urxe_payload_lost;

#define KEPT 256 /* packets on the wire; more are lost */

struct edges edges;

static struct kept *wire[KEPT];
static unsigned wire_head, wire_tail;
static uint32_t next_qpn, next_key;
static uint64_t counters[URXE_NUM_COUNTERS];

/* ---- two runs ---- */

#define NOTES (4 << 20)

bool short_ways;

static uint8_t notes[NOTES];
static size_t noted, read_back;
static bool again;

void notes_begin(bool second)
{
	again = second;
	read_back = 0;
	if (!second)
		noted = 0;
}

void notes_end(void)
{
	CHECK(!again || read_back == noted);
}

/* What has no room is not compared. */
void note(const void *what, size_t len)
{
	size_t at = again ? read_back : noted;

	if (len > NOTES - at)
		return;
	if (again)
		CHECK(len <= noted - at && !memcmp(notes + at, what, len));
	else
		memcpy(notes + at, what, len);
	if (again)
		read_back += len;
	else
		noted += len;
}

bool __real_urxe_requester_short(struct urxe_qp *qp);
bool __real_urxe_responder_short(struct urxe_qp *qp, const struct urxe_rx_packet *rx);
bool __real_urxe_completer_short(struct urxe_qp *qp, uint32_t psn);
bool __wrap_urxe_requester_short(struct urxe_qp *qp);
bool __wrap_urxe_responder_short(struct urxe_qp *qp, const struct urxe_rx_packet *rx);
bool __wrap_urxe_completer_short(struct urxe_qp *qp, uint32_t psn);

bool __wrap_urxe_requester_short(struct urxe_qp *qp)
{
	return short_ways && __real_urxe_requester_short(qp);
}

bool __wrap_urxe_responder_short(struct urxe_qp *qp, const struct urxe_rx_packet *rx)
{
	return short_ways && __real_urxe_responder_short(qp, rx);
}

bool __wrap_urxe_completer_short(struct urxe_qp *qp, uint32_t psn)
{
	return short_ways && __real_urxe_completer_short(qp, psn);
}

/* ---- the edges ---- */

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	ts->tv_sec = edges.clock_now / 1000000000;
	ts->tv_nsec = edges.clock_now % 1000000000;
	return 0;
}

static uint32_t most_payload(const struct urxe_tx_packet *pkt)
{
	if (!edges.near)
		return URXE_MAX_PAYLOAD;
	return pkt->refer ? URXE_MAX_REFERRED : URXE_MAX_RUN;
}

static void gather(uint8_t *to, const struct urxe_tx_packet *pkt)
{
	uint32_t len = 0;

	for (unsigned p = 0; p < pkt->iovcnt; p++) {
		CHECK(len + pkt->iov[p].iov_len <= pkt->payload_len);
		memcpy(to + len, pkt->iov[p].iov_base, pkt->iov[p].iov_len);
		len += pkt->iov[p].iov_len;
	}
	CHECK(len == pkt->payload_len);
}

struct urxe_refs *make_refs(uint32_t len)
{
	struct urxe_refs *refs = calloc(1, sizeof(*refs) + len);

	CHECK(refs);
	refs->len = len;
	return refs;
}

static bool is_other(const struct urxe_path *path)
{
	return !memcmp(&path->src, &edges.port.gids[1], sizeof(path->src));
}

static struct kept *keep(const struct urxe_path *path, const struct urxe_tx_packet *pkt)
{
	bool referred = edges.near && pkt->refer && pkt->payload_len > URXE_COPY_MOST;
	uint32_t body = referred ? 0 : pkt->payload_len + urxe_pad_of(pkt->payload_len);
	struct kept *k = calloc(1, sizeof(*k) + pkt->header_len + body);

	CHECK(k);
	k->len = pkt->header_len + body;
	k->span = pkt->span;
	k->other = is_other(path);
	memcpy(k->bytes, pkt->header, pkt->header_len);
	if (referred)
		k->refs = make_refs(pkt->payload_len);
	gather(referred ? k->refs->bytes : k->bytes + pkt->header_len, pkt);
	return k;
}

static void put_on_wire(struct kept *k)
{
	note(&k->len, sizeof(k->len));
	note(&k->span, sizeof(k->span));
	note(&k->other, sizeof(k->other));
	note(k->bytes, k->len);
	if (k->refs)
		note(k->refs->bytes, k->refs->len);
	wire[wire_head++ % KEPT] = k;
}

void forget(struct kept *k)
{
	free(k->refs);
	free(k);
}

int urxe_wire_send(struct urxe_wire *w, const struct urxe_path *path, struct urxe_tx_packet *pkts,
		   unsigned n)
{
	CHECK(n >= 1 && n <= URXE_TX_BATCH);
	for (unsigned i = 0; i < n; i++) {
		const struct urxe_tx_packet *pkt = &pkts[i];

		CHECK(pkt->header_len % 4 == 0 && pkt->header_len <= URXE_MAX_HEADER);
		CHECK(pkt->payload_len <= most_payload(pkt));
		CHECK(urxe_bth_pad((const struct urxe_bth *)pkt->header) ==
		      urxe_pad_of(pkt->payload_len));
		if (wire_head - wire_tail < KEPT)
			put_on_wire(keep(path, pkt));
	}
	return n;
}

/* A packet written for a neighbour. */
static void keep_short(const struct urxe_path *path, const uint8_t *bytes, uint32_t len)
{
	struct kept *k = calloc(1, sizeof(*k) + len);

	CHECK(k);
	CHECK(len >= sizeof(struct urxe_bth) && len % 4 == 0);
	k->len = len;
	k->span = 1;
	k->other = is_other(path);
	memcpy(k->bytes, bytes, len);
	put_on_wire(k);
}

static uint8_t *short_bytes;

uint8_t *urxe_wire_short(struct urxe_wire *w, const struct urxe_path *path, uint32_t qpn,
			 uint32_t len, struct urxe_short *way)
{
	if (!edges.near || wire_head - wire_tail > KEPT - 2)
		return NULL;
	/* Of just that size, so that a write beyond it is found. */
	free(short_bytes);
	short_bytes = malloc(len);
	CHECK(short_bytes);
	return short_bytes;
}

void urxe_wire_short_send(struct urxe_wire *w, const struct urxe_path *path,
			  const struct urxe_short *way, uint32_t first, uint32_t len)
{
	CHECK(first == len || len <= URXE_PAIR_MAX);
	keep_short(path, short_bytes, first);
	if (first < len)
		keep_short(path, short_bytes + first, len - first);
	free(short_bytes);
	short_bytes = NULL;
}

struct urxe_neighbour *urxe_wire_neighbour(struct urxe_wire *w, const struct urxe_path *path,
					   uint32_t qpn)
{
	static struct urxe_neighbour neighbour = {.slot = URXE_SLOT_FIRST + 1};

	return edges.near ? &neighbour : NULL;
}

/* Those whose memory may be referred to stand still. */
uint64_t urxe_wire_neighbour_ran(struct urxe_wire *w, const struct urxe_neighbour *near)
{
	return edges.refers ? 1 : edges.clock_now;
}

bool urxe_process_is_runnable(pid_t pid)
{
	return false;
}

/* Its tables cannot be opened, so that all goes by packets. */
unsigned urxe_wire_port_at(struct urxe_wire *w, const struct urxe_path *path)
{
	return URXE_NO_PORT;
}

bool urxe_wire_reaches(const struct urxe_path *path, uint16_t pkey)
{
	return true;
}

void urxe_wire_count_direct(const struct urxe_path *path, struct urxe_load there,
			    struct urxe_load back)
{
}

bool urxe_wire_faulty(struct urxe_wire *w, const struct urxe_path *path)
{
	return false;
}

unsigned urxe_segment_slot(const struct urxe_segment *s)
{
	return URXE_SLOT_FIRST;
}

bool urxe_segment_slot_alive(struct urxe_segment *s, unsigned slot)
{
	return slot < 32 && edges.alive >> slot & 1;
}

uint32_t urxe_segment_slot_life(const struct urxe_segment *s, unsigned slot)
{
	return edges.lives;
}

int urxe_window_create(struct urxe_segment *s, enum urxe_window_kind kind, size_t size)
{
	return -ENODEV;
}

int urxe_window_open(struct urxe_segment *s, unsigned slot, enum urxe_window_kind kind,
		     bool writable, size_t size)
{
	return -ENOENT;
}

int urxe_window_back(int fd, size_t offset, size_t len)
{
	return -ENOSPC;
}

void *urxe_window_map(int fd, size_t offset, size_t len)
{
	return NULL;
}

void urxe_window_remove(struct urxe_segment *s, enum urxe_window_kind kind)
{
}

ssize_t urxe_read_file(const char *path, char *buf, size_t max)
{
	return -ENOENT;
}

int urxe_fstat(int fd, struct urxe_stat *st)
{
	return -EBADF;
}

uint32_t urxe_wire_run(struct urxe_wire *w, const struct urxe_path *path, uint32_t qpn, bool *refer)
{
	if (!edges.near)
		return 0;
	*refer = *refer && edges.refers;
	return *refer ? URXE_MAX_REFERRED : URXE_MAX_RUN;
}

bool urxe_wire_full(struct urxe_wire *w, const struct urxe_path *path, uint32_t qpn, uint32_t len,
		    bool refer)
{
	return false;
}

int urxe_wire_send_near(struct urxe_wire *w, const struct urxe_path *path, unsigned slot,
			const struct urxe_tx_packet *pkt, uint64_t now)
{
	return -ESRCH;
}

bool urxe_wire_has_room(struct urxe_wire *w, unsigned slot)
{
	return false;
}

void urxe_wire_attend(struct urxe_wire *w, bool attended)
{
}

bool urxe_wire_missed(struct urxe_wire *w)
{
	return false;
}

enum urxe_look urxe_wire_look(const struct urxe_wire *w)
{
	return URXE_LOOK_ALL;
}

void urxe_wire_void_refs(struct urxe_wire *w, const struct urxe_path *path, uint32_t qpn)
{
}

unsigned urxe_wire_refs_slot(const struct urxe_refs *refs, uint32_t *life)
{
	return *life = 0;
}

int urxe_wire_pull(const struct urxe_refs *refs, uint32_t offset, const struct iovec *iov,
		   unsigned n, uint32_t len, int pid)
{
	CHECK(offset <= refs->len && len <= refs->len - offset);
	if (edges.stale)
		return -ESTALE;
	for (unsigned k = 0; k < n && len; k++) {
		uint32_t part = len < iov[k].iov_len ? len : iov[k].iov_len;

		memcpy(iov[k].iov_base, refs->bytes + offset, part);
		offset += part;
		len -= part;
	}
	CHECK(!len);
	return 0;
}

void urxe_wire_destroy(struct urxe_wire *w)
{
}

void urxe_wire_forked(struct urxe_wire *w)
{
}

void urxe_wire_ending(struct urxe_wire *w)
{
}

int urxe_wire_poll(struct urxe_wire *w, unsigned budget, uint64_t now, urxe_wire_rx_fn *fn,
		   void *arg)
{
	return 0;
}

int urxe_wire_poll_near(struct urxe_wire *w, unsigned budget, urxe_wire_rx_fn *fn)
{
	return 0;
}

void urxe_wire_drain(struct urxe_wire *w)
{
}

uint64_t urxe_wire_deadline(const struct urxe_wire *w)
{
	return UINT64_MAX;
}

void urxe_wire_housekeep(struct urxe_wire *w)
{
}

int urxe_wire_mcast_join(struct urxe_wire *w, const struct urxe_port *port,
			 const struct urxe_link_addr *group)
{
	return 0;
}

void urxe_wire_mcast_leave(struct urxe_wire *w, const struct urxe_port *port,
			   const struct urxe_link_addr *group)
{
}

int urxe_segment_join(struct urxe_segment **seg)
{
	*seg = (struct urxe_segment *)&edges.device;
	return 0;
}

void urxe_segment_leave(struct urxe_segment *seg)
{
}

void urxe_segment_forked(struct urxe_segment *seg)
{
}

uint32_t urxe_segment_qpn_alloc(struct urxe_segment *seg)
{
	return ++next_qpn << 8 | 2;
}

void urxe_segment_qpn_free(struct urxe_segment *seg, uint32_t qpn)
{
}

uint32_t urxe_segment_key_index_alloc(struct urxe_segment *seg)
{
	return ++next_key;
}

void urxe_segment_key_index_free(struct urxe_segment *seg, uint32_t index)
{
}

uint64_t *urxe_segment_counters(struct urxe_segment *seg, int index)
{
	return counters;
}

void urxe_segment_gsi_set(struct urxe_segment *seg, bool serves)
{
}

unsigned urxe_segment_gsi_next(struct urxe_segment *seg, unsigned after)
{
	return 0;
}

bool urxe_segment_servers_changed(struct urxe_segment *seg)
{
	return false;
}

unsigned urxe_segment_dead_take(struct urxe_segment *seg)
{
	return 0;
}

uint32_t urxe_mtu_bytes(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

struct ibv_device **urxe_get_devices(int *num)
{
	return NULL;
}

struct urxe_device *urxe_device_of(const struct ibv_device *ibv)
{
	return &edges.device;
}

bool urxe_guardian_is_wanted(const struct urxe_segment *seg)
{
	return false;
}

int urxe_service_start(void)
{
	return 0;
}

void urxe_service_stop(void)
{
}

void urxe_service_forked(void)
{
}

void urxe_service_wake(void)
{
}

void urxe_engine_polled(uint64_t now)
{
}

void urxe_engine_watch(void)
{
}

/* No agents of management classes, */
void urxe_segment_reap(struct urxe_segment *seg)
{
}

void urxe_segment_lock(struct urxe_segment *seg)
{
}

void urxe_segment_unlock(struct urxe_segment *seg)
{
}

int urxe_segment_port_walk(struct urxe_segment *seg, uint16_t ps, uint16_t port, uint32_t except,
			   urxe_port_visit *visit, void *arg)
{
	return -ENOSPC;
}

int urxe_segment_port_add(struct urxe_segment *seg, const struct urxe_binding *b, uint32_t *row)
{
	return -ENOSPC;
}

void urxe_segment_port_release(struct urxe_segment *seg, uint32_t row)
{
}

bool urxe_segment_port_find(struct urxe_segment *seg, uint32_t host, uint16_t ps, uint16_t port,
			    urxe_port_merit *merit, const void *arg, unsigned *slot, uint32_t *id)
{
	return false;
}

/* no records for those who come after this process, and no frames of a netdev. */
int urxe_segment_records_put(struct urxe_segment *seg, enum urxe_record_kind kind,
			     const uint8_t record[URXE_RECORD_BYTES], uint32_t *index)
{
	return -ENOSPC;
}

uint8_t *urxe_segment_record(struct urxe_segment *seg, uint32_t index)
{
	return NULL;
}

void urxe_segment_records_clear(struct urxe_segment *seg, uint32_t index)
{
}

void urxe_segment_records_walk(struct urxe_segment *seg, enum urxe_record_kind kind,
			       void (*fn)(const uint8_t *record, void *arg), void *arg)
{
}

int urxe_raw_permitted(void)
{
	return -EPERM;
}

int urxe_raw_open(struct urxe_wire *wire_of, const struct urxe_port *port, urxe_raw_rx_fn *fn,
		  void *arg, struct urxe_raw **raw)
{
	return -EPERM;
}

void urxe_raw_close(struct urxe_raw *raw)
{
}

void urxe_raw_forked(struct urxe_raw *raw)
{
}

int urxe_raw_listen(struct urxe_raw *raw, bool listen)
{
	return -EPERM;
}

unsigned urxe_raw_send(struct urxe_raw *raw, struct mmsghdr *frames, unsigned n, int *error)
{
	*error = -EPERM;
	return 0;
}

struct kept *oldest_kept(void)
{
	return wire_head == wire_tail ? NULL : wire[wire_tail % KEPT];
}

void take_oldest(void)
{
	wire_tail++;
}

void edges_begin(void)
{
	memset(&edges, 0, sizeof(edges));
	edges.clock_now = 1000000000000;
	next_qpn = next_key = 100;
}

struct ibv_context *edges_open(void)
{
	static struct ibv_device ibv;
	static struct ibv_context *context;

	edges.device.num_ports = 1;
	edges.device.ports = &edges.port;
	edges.port = (struct urxe_port){
		.kind = &urxe_netdev_port,
		.num = 1,
		.state = IBV_PORT_ACTIVE,
		.active_mtu = IBV_MTU_1024,
		.gids = {{.raw[15] = 1}, {.raw[15] = 2}},
		.gid_len = 2,
		.pkeys[0] = URXE_PKEY_DEFAULT,
		.pkey_len = 1,
	};
	urxe_ports_add(&edges.device);
	if (!context)
		CHECK(context = urxe_open_device(&ibv));
	urxe_hca.now = urxe_hca.clock_ticks = urxe_hca.ran_at = edges.clock_now;
	urxe_hca.housekeep_at = UINT64_MAX;
	urxe_wheel_init(&urxe_hca.wheel, edges.clock_now);
	return context;
}

void edges_end(void)
{
	for (; wire_tail != wire_head; wire_tail++)
		forget(wire[wire_tail % KEPT]);
	wire_head = wire_tail = 0;
}
