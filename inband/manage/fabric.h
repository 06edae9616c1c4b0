/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What a server wants to know of a network, and to change in it, whatever the network is: a table
 * of asynchronous operations. A back end (th2.c) fills it in, with NULL where it cannot. Operations
 * come to their end in fabric_progress(), in the order that the network answers. One thread.
 */
#ifndef INBAND_FABRIC_H
#define INBAND_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "inband/nmp.h"
#include "inband/registers.h"

#define FABRIC_PORTS	255
#define FABRIC_COUNTERS 10
#define FABRIC_NO_ID	UINT64_MAX

struct job;

/* The way to a device, and the back end's account of it. */
struct target {
	uint64_t id;
	uint8_t type; /* enum nmp_chip: end node or switch */
	uint8_t outstanding;
	bool ready;
	bool slow; /* a unit of the device that takes a hundred times as long: has a window of its own */
	struct nmp_route out, back;
	const struct target *way; /* whose ways are taken; NULL: its own */
	struct target *next_ready;
	struct job *first, **last;
};

enum neighbour_state {
	NEIGHBOUR_NONE,	 /* no light comes in, or no cable */
	NEIGHBOUR_LIGHT, /* light, but the handshake fails */
	NEIGHBOUR_UP,
};

struct neighbour {
	uint8_t state; /* enum neighbour_state */
	uint8_t type, port;
	uint8_t ports; /* that it has; 0: as Tianhe-2's chips have */
	uint64_t id;   /* FABRIC_NO_ID: it has none */
};

struct link_facts {
	uint8_t state; /* enum link_state */
	uint8_t width; /* lanes */
	bool light;
	uint64_t handshakes, retries, errors;
};

struct port_set {
	uint64_t bits[4];
};

static inline void port_set_add(struct port_set *set, unsigned port)
{
	set->bits[port / 64] |= 1ull << port % 64;
}

static inline void port_set_drop(struct port_set *set, unsigned port)
{
	set->bits[port / 64] &= ~(1ull << port % 64);
}

static inline bool port_set_has(const struct port_set *set, unsigned port)
{
	return set->bits[port / 64] >> port % 64 & 1;
}

static inline unsigned port_set_count(const struct port_set *set)
{
	unsigned count = 0;

	for (unsigned i = 0; i < 4; i++)
		count += __builtin_popcountll(set->bits[i]);
	return count;
}

/* What an operation has found out. */
struct facts {
	unsigned ports; /* how many of the following are filled */
	union {
		struct {
			uint64_t id, uptime;
			uint8_t type, nports;
			int32_t temperature;
			uint32_t status;
		} identity;
		struct neighbour neighbours[FABRIC_PORTS];
		struct link_facts links[FABRIC_PORTS];
		uint64_t counters[FABRIC_PORTS]
				 [FABRIC_COUNTERS]; /* as enum port_register has them */
		struct port_set output_ports;
		uint64_t value[NMP_MAX_REGISTERS];
		uint8_t byte[NMP_MAX_BYTES];
	};
};

/* status: 0; -ETIMEDOUT: no answer; -EREMOTEIO: refused; facts are valid during the call alone. */
typedef void fabric_done(void *arg, int status, const struct facts *facts);

typedef void fabric_bytes(void *arg, unsigned address, unsigned count, const uint8_t *byte);

/* Tables of a switch: input ports with the same one are a group. */
struct table_image {
	uint32_t number; /* of the load */
	unsigned groups;
	uint32_t ports[2]; /* of a group */
	uint32_t entry[2][TABLE_ENTRIES];
	/* Pairs of entries that have to be written: 2 i and 2 i + 1 of each group. */
	bool stale[2][TABLE_ENTRIES / 2];
};

/* Of requests to devices, by the back end. */
struct fabric_counts {
	uint64_t sent, answered, retried, timed_out, refused;
	uint64_t stale; /* answers that match no request under way */
	uint64_t reports;
};

struct fabric;

struct fabric_ops {
	const char *name;
	const char *const *counter_names; /* NULL: those of Tianhe-2's chips */
	/* Each returns 0, and then done is called once; or -ENOMEM. */
	int (*identify)(struct fabric *f, struct target *t, fabric_done *done, void *arg);
	int (*neighbours)(struct fabric *f, struct target *t, fabric_done *done, void *arg);
	int (*link)(struct fabric *f, struct target *t, unsigned port, fabric_done *done,
		    void *arg);
	int (*counters)(struct fabric *f, struct target *t, fabric_done *done, void *arg);
	/* By which ports of a switch a packet to end node `to` leaves that came in by a port. */
	int (*route)(struct fabric *f, struct target *t, unsigned in_port, uint64_t to,
		     fabric_done *done, void *arg);
	/*
	 * Writes tables into a switch and reads them back, with the load's number in the switch's
	 * mark. The image has to stay until then. -EIO: the switch has not kept them.
	 */
	int (*tables_write)(struct fabric *f, struct target *t, const struct table_image *image,
			    fabric_done *done, void *arg);
	int (*register_read)(struct fabric *f, struct target *t, uint32_t address, unsigned count,
			     fabric_done *done, void *arg);
	/* once: is not repeated when no answer comes, as a clear or a start must not be. */
	int (*register_write)(struct fabric *f, struct target *t, uint32_t address, uint64_t value,
			      bool once, fabric_done *done, void *arg);
	/*
	 * Reads length bytes; take(arg, address, count, byte) is called for parts of them, in any
	 * order, and done after the last. The target is to be a slow one.
	 */
	int (*eeprom_read)(struct fabric *f, struct target *t, unsigned address, unsigned length,
			   fabric_bytes *take, fabric_done *done, void *arg);
	/* Writes up to NMP_MAX_BYTES. Answered before it is done: read it back. */
	int (*eeprom_write)(struct fabric *f, struct target *t, unsigned address, unsigned count,
			    const uint8_t *byte, fabric_done *done, void *arg);

	/* Ends after so many picoseconds of the network's time. */
	int (*pause)(struct fabric *f, uint64_t ps, fabric_done *done, void *arg);
	/* Has the device report its faults to this server by the way that its answers take. */
	int (*subscribe)(struct fabric *f, struct target *t, fabric_done *done, void *arg);

	/* The device that the server itself sits at, where discovery begins; how many ports it has.
	 * */
	unsigned (*origin)(struct fabric *f, struct target *t);
	/* Does what can be done, and waits for more if told to. 0; 1: nothing is under way; < 0: it
	 * is over. */
	int (*progress)(struct fabric *f, bool wait);
	/*
	 * For event loops: 1: fd is readable when there is something to do, then check() has to be
	 * called and progress(); 0: there is something now; < 0: it is over.
	 */
	int (*arm)(struct fabric *f, int *fd);
	int (*check)(struct fabric *f);
	/* What a device calls itself; NULL: nothing. */
	const char *(*device_name)(struct fabric *f, unsigned type, uint64_t id);
	/* By what a subnet manager knows a switch (port 0), or an end node's port; 0: not known. */
	uint64_t (*port_guid)(struct fabric *f, uint64_t id, unsigned port);
	/* The network's time, in picoseconds. */
	uint64_t (*now)(struct fabric *f);
	const struct fabric_counts *(*counts)(struct fabric *f);
	void (*destroy)(struct fabric *f);
};

/* A device says that something has happened to it. */
struct fabric_report {
	uint64_t id;
	uint8_t type;
	uint8_t fault; /* enum fault of registers.h */
	uint8_t port;
	bool look; /* it does not say what; id FABRIC_NO_ID: nor who */
	uint64_t value;
};

struct fabric {
	const struct fabric_ops *ops;
	void (*report)(void *arg, const struct fabric_report *report); /* NULL: nobody listens */
	void *report_arg;
	/* Another way to a device that has not answered by its own; NULL, or false: there is none.
	 */
	bool (*other_way)(void *arg, const struct target *t, struct nmp_route *out,
			  struct nmp_route *back);
	void *other_arg;
};

/* Until nothing is under way. */
int fabric_finish(struct fabric *f);
void target_init(struct target *t, unsigned type, uint64_t id);
/* The slow unit of a device, by the device's own ways. */
void target_init_slow(struct target *t, const struct target *device);

#endif
