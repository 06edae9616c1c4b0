/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe-switch: leaves and spines in one process, between real endpoints. What its files share. One
 * thread, the loop's.
 *
 *   host == TAP or unix datagrams == port | leaf == link == spine == link == leaf | port == host
 *
 * A frame read from a port gets its way at its leaf: a RoCE frame to another leaf by libreorder's
 * source half, with a shim between its Ethernet and its IP header, any other by the hash of its
 * addresses. At the leaf it leaves by, the shim goes and libreorder's destination half puts it in
 * order. Links have a rate and a delay if the configuration says so; without, frames pass at once.
 */
#ifndef URXE_SWITCH_H
#define URXE_SWITCH_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "daemons/common/control.h"
#include "daemons/common/loop.h"
#include "daemons/common/metrics.h"
#include "reorder/reorder.h"

#define MAX_LEAVES 16
#define MAX_SPINES 16
#define MAX_PORTS  64
#define MAX_FRAME  9234 /* without FCS: 9,216 and an Ethernet header with one tag */
#define HEADROOM   32	/* for the shim */
#define MAC_SETS   512
#define MAC_WAYS   8 /* addresses that have the same hash */
#define NONE	   UINT32_MAX

enum port_kind { PORT_TAP, PORT_UNIX };

struct settings {
	char leaves[MAX_LEAVES][16], spines[MAX_SPINES][16];
	unsigned num_leaves, num_spines, num_ports;
	struct port_settings {
		uint8_t leaf, kind;
		char name[108]; /* interface, or our socket */
		char peer[108]; /* the peer's socket */
	} ports[MAX_PORTS];
	struct {
		uint8_t spine;
		uint64_t delay; /* ps, more than the others */
	} slower[MAX_SPINES];
	unsigned num_slower;
	uint64_t rate, host_rate; /* bit/s, 0: unlimited */
	uint64_t delay;		  /* ps */
	unsigned queues, frames, flows, buffer_kb, xoff_kb, mark_min_kb, mark_max_kb;
	uint64_t high, gain, hold; /* ps */
	unsigned reroute_every;
	bool reorder, mark_all;
	char control_socket[108], metrics_listen[64];
	int log_level;
};

/* Reads a configuration; 0 or a negative errno after a line in the log. */
struct config_source;
struct config_table;
int settings_load(struct settings *settings, const struct config_source *source);
void settings_defaults(struct settings *settings);
const struct config_table *settings_table(void);
/* Whether it makes sense as a whole. */
int settings_check(const struct settings *settings);

struct frame {
	uint32_t next;
	uint16_t start, size; /* in bytes */
	uint16_t ingress;     /* link, or NUM_LINKS + port, that its bytes are charged to */
	uint8_t from, to;     /* leaves */
	uint8_t path;
	uint16_t port; /* of the destination leaf */
	bool roce, shimmed, clear;
	uint32_t id;
	int64_t time; /* on a link with a delay: of its arrival */
	struct reorder_key key;
	uint8_t bytes[HEADROOM + MAX_FRAME];
};

struct fifo {
	uint32_t first, last;
	uint64_t bytes;
};

/* One direction of a link between a leaf and a spine. */
struct link {
	struct fifo queue, flying;
	int64_t free_at, delay;
	bool pending;	      /* an event will look at the queue */
	bool paused, pausing; /* the sender is; the receiver wants it to be */
	uint8_t leaf, spine;
	bool up;	  /* leaf to spine */
	uint64_t charged; /* bytes in the receiving switch that came by it */
	uint64_t frames, bytes, marks, drops, pauses;
};

struct port {
	struct daemon *daemon;
	int fd;
	uint8_t leaf, kind;
	uint16_t local; /* number at its leaf */
	struct event *readable, *writable;
	struct sockaddr_un peer;
	bool blocked, stopped, pending;
	bool gone, bound; /* its TAP was deleted; its socket has a name */
	int64_t free_at;
	uint64_t charged;
	uint64_t in_frames, in_bytes, out_frames, out_bytes, drops;
};

struct leaf {
	struct daemon *daemon;
	uint8_t number;
	struct reorder_source *source;
	struct reorder_destination *destination;
	uint16_t ports[MAX_PORTS];
	unsigned num_ports;
	int64_t timer;
	uint64_t shimmed; /* counts towards the next forced move */
};

struct mac {
	uint8_t address[6];
	uint16_t port;
	int64_t seen; /* ps, when it sent last; 0: none */
};

struct event_row {
	int64_t time;
	uint32_t order;
	uint16_t kind, what;
};

struct daemon {
	struct settings settings;
	struct loop loop;
	struct control *control;
	struct metrics *metrics;
	struct frame *frames;
	uint32_t free_frame, frames_out;
	struct leaf leaves[MAX_LEAVES];
	bool spine_up[MAX_SPINES];
	struct link links[2 * MAX_LEAVES * MAX_SPINES];
	struct port ports[MAX_PORTS];
	struct mac macs[MAC_SETS][MAC_WAYS];
	struct event_row *heap;
	unsigned events, events_room;
	uint32_t order;
	int timer_fd;
	struct event *timer;
	int64_t armed; /* what timer_fd is set for */
	int64_t now;
	uint16_t kicks[MAX_PORTS];
	unsigned num_kicks;
	uint64_t no_frame, not_ours, flooded, unknown;
};

/* frame.c */
int frames_create(struct daemon *d);
uint32_t frame_new(struct daemon *d);
void frame_free(struct daemon *d, uint32_t f);
void fifo_add(struct daemon *d, struct fifo *fifo, uint32_t f);
uint32_t fifo_take(struct daemon *d, struct fifo *fifo);
/* Finds out what a frame from a host is: roce, key and id. */
void frame_classify(struct frame *frame);
void frame_push_shim(struct frame *frame, const struct reorder_shim *shim);
/* 0, or -EPROTO where there is none or it cannot be read. */
int frame_pop_shim(struct frame *frame, struct reorder_shim *shim);
/* Sets CE where the sender said that it understands, or always. True if it did. */
bool frame_mark(struct frame *frame, bool always);

/* schedule.c: what happens at a time. */
enum due { LINK_FREE, LINK_ARRIVAL, LINK_PAUSE, LINK_RESUME, LEAF_TIMER, PORT_FREE };
int schedule_start(struct daemon *d);
void schedule_stop(struct daemon *d);
void schedule_at(struct daemon *d, int64_t time, enum due kind, unsigned what);
/* Takes the time, does what is due, and sets the timer for what is not. */
void schedule_run(struct daemon *d);
int64_t schedule_now(void);

/* link.c */
struct link *link_of(struct daemon *d, unsigned leaf, unsigned spine, bool up);
unsigned link_number(const struct daemon *d, const struct link *link);
void link_send(struct daemon *d, struct link *link, uint32_t f);
void link_free(struct daemon *d, unsigned number);
void link_pause(struct daemon *d, unsigned number, bool pause);
void link_arrival(struct daemon *d, unsigned number);
/* Bytes of a frame have left the switch that they were charged to. */
void uncharge(struct daemon *d, struct frame *frame);
bool charge(struct daemon *d, struct frame *frame, unsigned ingress);
void spine_set(struct daemon *d, unsigned spine, bool up);

/* leaf.c */
int leaves_create(struct daemon *d);
void leaves_destroy(struct daemon *d);
/* A frame from a host, and one from a spine. Both take it. */
void leaf_from_host(struct daemon *d, unsigned port, uint32_t f);
void leaf_from_spine(struct daemon *d, unsigned leaf, uint32_t f);
void leaf_timer(struct daemon *d, unsigned leaf);
/* Write to hosts what may leave. */
void leaves_settle(struct daemon *d);

/* port.c */
int ports_open(struct daemon *d);
void ports_close(struct daemon *d);
void port_pump(struct daemon *d, unsigned port);
void port_stop(struct daemon *d, struct port *port, bool stop);

/* commands.c */
extern const struct control_command switch_commands[];
extern const unsigned switch_num_commands;
void switch_metrics(FILE *out, void *arg);
int command_line(int argc, char **argv);

#endif
