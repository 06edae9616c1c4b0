/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The machine in virtual time: chips (chip.c, nma.c, eeprom.c), links (link.c), events (sim.c),
 * faults (fault.c), and the hosts that management servers run on (host.c). One thread, no locks.
 *
 *	host ──SDQ──► NIC ──link──► NRC ──link──► … ──► NMA of the addressed chip
 *	     ◄─MPQ──     ◄─────────────────────────────
 *
 * A link carries VC3 only. A packet leaves a FIFO when the FIFO at the link's other end has room
 * for it (a credit); a credit comes back at once when the packet there moves on. The head of a FIFO
 * that cannot move blocks those behind it. Time is in picoseconds.
 */
#ifndef INBAND_SIM_H
#define INBAND_SIM_H

#include "inband/machine.h"
#include "inband/nmp.h"
#include "inband/registers.h"
#include "inband/sim/calendar.h"

#define SIM_NEVER UINT64_MAX
#define SIM_US	  1000000ull /* picoseconds */

struct sim;
struct host;

/* Calibrated by the paper's measurements, see docs/inband.md. */
struct sim_times {
	uint64_t hop;		  /* to cross a link, one way */
	uint64_t flits;		  /* a packet occupies its link */
	uint64_t reg, reg_second; /* of a register request; more for the second register read */
	uint64_t eeprom, eeprom_read,
		eeprom_write; /* of a request of one byte; of each further one */
	uint64_t eeprom_write_first;
	uint64_t busy;	    /* most residual time of a data packet in the way; mean is half of it */
	uint64_t handshake; /* until a link is up again */
	uint64_t load;	    /* from power to ready */
	uint64_t send, receive; /* the server's own cost of a request, and of a response */
	uint64_t out_of_band;	/* a register by I2C */
};

struct sim_config {
	struct sim_times times;
	unsigned credits;    /* of VC3, a link and direction */
	unsigned nma_fifo;   /* requests that wait for a unit of the NMA */
	unsigned nma_output; /* packets in its output FIFO */
	uint64_t seed;
	/* Of packets that reach their end, in millionths. */
	unsigned loss, duplicates, delayed;
	uint64_t delay; /* of those: at most */
};

struct packet {
	struct packet *next;
	uint32_t port; /* that it arrives at */
	uint32_t life; /* of the link, when it was sent */
	uint8_t hop;   /* NRCs that it has left */
	bool judged;   /* its fate by loss, duplicates and delay is decided */
	bool local;    /* between a host and its own NIC: no link */
	struct nmp nmp;
};

/* Packets in order, on one way: an input port's, an NMA's output, a host's requests. */
struct fifo {
	struct packet *head, *tail;
	struct fifo *next_waiter;
	uint32_t chip;
	uint16_t count;
	bool port_input; /* gives a credit back */
	bool waiting;
};

struct waiters {
	struct fifo *head, *tail;
};

/* What each packet needs is in the first line of the cache. */
struct port {
	struct fifo input;
	uint64_t busy_until;
	uint32_t peer;	     /* port at the other end of the cable, MACHINE_NONE */
	uint32_t life;	     /* counts ups and downs */
	uint32_t error_rate; /* of packets received, in millionths */
	uint8_t credits;
	uint8_t state; /* enum link_state */
	uint8_t lanes; /* that work */
	bool light;    /* the transmitter at the other end reaches us */

	struct waiters waiters; /* FIFOs whose head wants to leave by this port */
	uint64_t sent, received;
	uint32_t tag;
	bool enabled;
	uint8_t bist; /* enum bist_state */
	uint8_t bist_intensity;
	uint32_t bist_errors;
	uint64_t bist_time, bist_until, bist_bits;
	uint32_t handshakes, retries, errors, waits, dropped;
} __attribute__((aligned(64)));

/* A unit of the NMA that serves one request at a time. */
struct unit {
	struct packet *head, *tail; /* waiting; the first is being served if busy */
	struct packet *done;	    /* answered, and the output FIFO is full */
	uint8_t count;
	bool busy;
};

enum unit_kind { UNIT_REGISTER, UNIT_EEPROM, UNITS };

struct report {
	struct report *next;
	uint8_t fault, port;
	uint64_t value;
};

struct table {
	uint32_t refs;
	uint8_t entry[TABLE_ENTRIES][3];
};

struct eeprom_page {
	uint16_t number;
	uint8_t byte[256];
};

struct chip {
	struct port *ports;
	uint8_t type, nports;
	bool dead;
	bool stuck; /* the memory of its tables takes nothing any more */
	uint8_t status;
	uint32_t id; /* NMP_NO_ID: has none */
	struct unit units[UNITS];
	struct fifo output;   /* nmp_output_fifo */
	struct fifo outgoing; /* of the hosts at a management NIC, on their way out */
	struct waiters
		waiters; /* input FIFOs whose head is for this chip, and finds its units full */
	struct report *reports, **reports_end;
	struct host *hosts;    /* VPs of a management NIC */
	struct table **tables; /* NRC: of each input port, NULL until one is written */
	struct eeprom_page **pages;
	uint64_t born; /* time of the last reset */
	uint64_t scratch[2];
	uint64_t report_to, report_route[2];
	uint32_t table_select, table_index;
	uint32_t fault_enable, fault_mask, fault_status;
	uint32_t requests, errors, dropped, report_count;
	int32_t temperature;
	uint16_t page_count;
	uint16_t frame;
};

/* What an event is for. */
enum event_kind {
	EVENT_ARRIVE,  /* packet at the end of a link */
	EVENT_UNIT,    /* a unit has served its request: what = chip * UNITS + unit */
	EVENT_LINK_UP, /* handshake done: what = port, more = life */
	EVENT_READY,   /* chip has loaded its EEPROM: what = chip */
	EVENT_BIST,    /* what = port, more = life */
	EVENT_SUBMIT,  /* a descriptor's doorbell: packet, port = chip */
	EVENT_DELIVER, /* delayed packet reaches its end: packet, port = chip */
	EVENT_RESET,   /* a chip loses its state and loads its EEPROM: what = chip */
};

/* What thsim has counted: the truth that a server's claims are compared with. */
struct sim_counts {
	uint64_t requests[2]; /* that reached their chip, by chip type */
	uint64_t packets, responses, reports, refused, lost, duplicated, delayed, unroutable;
	uint64_t mpq_full, retries, link_packets, events;
};

struct sim {
	const struct machine *machine;
	struct sim_config config;
	uint64_t now;
	struct calendar calendar;
	uint64_t order;
	uint64_t random;
	struct chip *chips;
	struct port *ports;
	struct packet *free_packets;
	struct host *hosts; /* all of them */
	uint64_t limit;	    /* time passes up to here, exclusive */
	struct sim_counts counts;
	uint32_t *per_chip; /* requests that each chip got */
	size_t memory;
};

void sim_times_default(struct sim_times *times);
int sim_create(const struct machine *machine, const struct sim_config *config, struct sim **sim);
void sim_destroy(struct sim *sim);
/* Carries out the earliest event; its time is now. False: there is none before `limit`. */
bool sim_step(struct sim *sim, uint64_t limit);
void sim_at(struct sim *sim, uint64_t at, enum event_kind kind, uint32_t what, uint32_t more);
void sim_at_packet(struct sim *sim, uint64_t at, enum event_kind kind, struct packet *packet);
uint32_t sim_random(struct sim *sim, uint32_t below);
struct packet *sim_packet(struct sim *sim);
void sim_packet_free(struct sim *sim, struct packet *packet);

static inline uint32_t sim_port_index(const struct sim *sim, const struct port *port)
{
	return port - sim->ports;
}
static inline uint32_t sim_port_number(const struct sim *sim, const struct port *port)
{
	uint32_t index = port - sim->ports;

	return index - sim->machine->chips[sim->machine->ports[index].chip].first_port;
}
static inline struct chip *sim_port_chip(const struct sim *sim, const struct port *port)
{
	return &sim->chips[sim->machine->ports[port - sim->ports].chip];
}

/* link.c: moves what can move; a packet at the end of a link; links up and down. */
void fifo_push(struct fifo *fifo, struct packet *packet);
void fifo_advance(struct sim *sim, struct fifo *fifo);
void waiters_kick(struct sim *sim, struct waiters *waiters);
void waiters_add(struct waiters *waiters, struct fifo *fifo);
void link_arrive(struct sim *sim, struct packet *packet);
/* Both ends: begins the handshake if the cable, the chips and the settings allow one, else goes
 * down. */
void link_update(struct sim *sim, struct port *port);
void link_handshaken(struct sim *sim, uint32_t port, uint32_t life);
/* An end of a link, with its input FIFO emptied and its credits whole. */
void link_reset(struct sim *sim, struct port *port);

/* nma.c: takes a packet for this chip; false: no room, nothing has been done. */
bool nma_accept(struct sim *sim, struct chip *chip, struct packet *packet);
void nma_unit_done(struct sim *sim, uint32_t what);
/* Lets answers and reports into the output FIFO while it has room. */
void nma_collect(struct sim *sim, struct chip *chip);
/* A fault signal: reported when the chip is set so. */
void nma_fault(struct sim *sim, struct chip *chip, enum fault fault, unsigned port, uint64_t value);

/* chip.c: registers. Returns 0 or an enum nmp_error. */
unsigned chip_read(struct sim *sim, struct chip *chip, uint32_t address, uint64_t *value);
unsigned chip_write(struct sim *sim, struct chip *chip, uint32_t address, uint64_t value);
/* Loses all state, and loads the EEPROM; ready after config.times.load. */
void chip_reset(struct sim *sim, struct chip *chip);
void chip_ready(struct sim *sim, uint32_t chip);
void chip_kill(struct sim *sim, struct chip *chip);
void chip_bist_end(struct sim *sim, uint32_t port, uint32_t life);

/* eeprom.c */
uint8_t eeprom_read(const struct sim *sim, const struct chip *chip, unsigned address);
int eeprom_write(struct sim *sim, struct chip *chip, unsigned address, uint8_t value);
/* Whether the header fits its CRC; *id: what it says. */
bool eeprom_load(const struct sim *sim, const struct chip *chip, uint32_t *id);
void eeprom_free(struct chip *chip);

/* table.c: route tables that ports share until they differ. */
uint32_t table_get(const struct chip *chip, unsigned port, unsigned index);
int table_set(struct sim *sim, struct chip *chip, uint32_t ports, unsigned index, uint32_t mask);
void table_drop(struct sim *sim, struct chip *chip);

/* fault.c */
enum fault_kind {
	BREAK_SWAP,	/* the cables of two links, exchanged at one end */
	BREAK_CUT,	/* no light, either way */
	BREAK_DARK,	/* no light one way: the link does not come up */
	BREAK_NARROW,	/* some lanes are dark */
	BREAK_DEGRADED, /* packets are damaged and sent again */
	BREAK_DEAD,	/* a chip */
	BREAK_EEPROM,	/* a bit of an EEPROM turned over */
	BREAK_REBOOT,	/* a chip, within the first tenth of a second */
	BREAKS
};
struct broken {
	enum fault_kind kind;
	uint32_t chip, port; /* port: number of the chip's port, or EEPROM address */
	uint32_t chip2, port2;
};
/*
 * Breaks what the text says, "swap=50,cut=20,dark=3,loss=1%,delay=1%:900", by the simulation's
 * seed.
 * *broken: what; to be freed. -EINVAL: error says what is wrong with the text.
 */
int fault_apply(struct sim *sim, const char *text, struct broken **broken, unsigned *count,
		char *error, size_t length);
/* Breaks, or mends, one thing now: "cut S.leaf.3.7:4", "dead S.root.3.0", "mend S.leaf.3.7:4". */
int fault_tell(struct sim *sim, const char *text, char *error, size_t length);
void fault_print(const struct sim *sim, const struct broken *broken, unsigned count, FILE *file);

/* walk.c: routes as data packets take them, by the chips' own tables. */
struct walk {
	uint32_t walks, arrived, lost, most_hops;
	uint32_t from, to, at; /* of the last that was lost: chips */
};
void walk_random(struct sim *sim, uint32_t pairs, struct walk *walk);
/* Fills all tables as routes_create() makes them. */
int walk_fill(struct sim *sim);

/* host.c: a packet that came in for a management NIC; a descriptor whose doorbell was rung. */
void host_deliver(struct sim *sim, struct chip *chip, struct packet *packet);
void host_submit(struct sim *sim, struct packet *packet);

#endif
