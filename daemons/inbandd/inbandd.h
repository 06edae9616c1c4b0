/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * inbandd: the management server as a process. One thread, the loop's.
 *
 *	network.c	the back end in the loop
 *	alarms.c	reports of chips become alarms
 *	events.c	what happens, for listeners
 *	commands*.c	what inbandctl asks for
 *	web*.c		the page, and what it asks for
 *
 * To show the state of things, read it here, in the loop's thread:
 *
 *	d->plan		what is meant to be: chips by cabinet, frame and board, layers, names. Does not change.
 *			device_find(), device_chip() and chip_device() lead from one to the other.
 *	d->model	what was found: devices, their ports, and what is at them. NULL until something has been.
 *			Another discovery replaces it: between two calls from the loop nothing of it may be kept but
 *			numbers of devices, and these as long as d->generation stays. Within a generation devices and
 *			cables stay, and a port's state, lost and testing change; each change is an event.
 *			model_port.peer == MODEL_NONE: nothing is known to be at that port.
 *	d->alarms	alarms_first() and ->next: the latest first, with those that are over.
 *	d->events	what happens from now on: events_listen().
 *
 * Whatever inbandctl can have done, control_call(d->control, …) has done. command_changes() says
 * which commands are not for viewers. An operation of d->fabric may be NULL: that
 * network cannot do it; commands then say so.
 */
#ifndef INBANDD_H
#define INBANDD_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>
#include <json-c/json.h>

#include "daemons/common/config_file.h"
#include "daemons/common/control.h"
#include "daemons/common/loop.h"
#include "daemons/common/metrics.h"
#include "daemons/common/notify.h"
#include "daemons/inbandd/events.h"
#include "inband/machine.h"
#include "inband/manage/discover.h"
#include "inband/manage/load.h"
#include "inband/manage/scan.h"

struct alarms;
struct monitor;
struct store;
struct events;
struct web;

#define INBANDD_HTTP "127.0.0.1:8470"

enum network { NETWORK_TH2, NETWORK_IB };

struct inbandd_config {
	int network;	  /* enum network */
	char ib_port[32]; /* "": the first that is active */
	char thsim[108];  /* socket; "": the default */
	uint64_t nic;
	char plan[256]; /* "": none */
	char plan_file
		[256]; /* what has been edited, instead of plan when it is there; "": nothing may be */
	char load[256];	    /* a dump, in place of a network; "" */
	char database[256]; /* "": in memory */
	uint64_t keep;	    /* days */
	uint64_t scan;	    /* s between scans by itself; 0: none */
	char thresholds[128];
	char counters[256]; /* what they have grown by; "": nowhere */
	bool counters_traffic;
	uint64_t window, slow_window, per_chip, timeout, tries, budget;
	bool discover;	  /* at the start */
	uint64_t hold;	  /* ms that reports are gathered before they become alarms */
	uint64_t sweep;	  /* s between looks at all links; 0: never */
	uint64_t reroute; /* s that nothing may change before routes are loaded anew; 0: never */
	uint64_t settle; /* s that a link which came back is not used by routes; longer each time */
	uint64_t hold_down; /* ms that a fault has to be gone before its alarm is cleared */
	char control_socket[100];
	char control_group[32];
	char metrics_listen[64];
	char http_listen[64];
	char http_tokens[256]; /* file; "": whoever reaches the page is a viewer */
	char http_dygraphs[256];
	bool http_remote; /* http_listen may be reached from elsewhere */
	int log_level;
};

struct inbandd {
	struct loop loop;
	struct inbandd_config config;
	struct notify *notify;
	struct control *control;
	struct metrics *metrics;
	struct fabric *fabric;
	struct event *wake, *again, *sweep;
	struct machine *plan; /* NULL: none */
	struct model *model;  /* NULL: nothing has been discovered */
	uint32_t generation;  /* of the model, from 1 */
	struct discovery_result discovered;
	unsigned users; /* operations that hold the model */
	bool discovering;
	int failed;
	struct loaded loaded; /* routes */
	bool loading;
	uint32_t half_loaded; /* switches, as another server left them */
	struct event *reroute, *settle;
	struct resting *resting; /* routes.c: links that came back */
	struct alarms *alarms;
	struct events *events;
	struct store *store;
	struct monitor *monitor;
	struct listener listener; /* what is stored */
	struct web *web;
};

extern const struct config_table inbandd_config_table;
void inbandd_config_init(struct inbandd_config *config);

/* network.c */
int network_start(struct inbandd *d);
void network_stop(struct inbandd *d);
/* After operations were begun: sends them, in the loop's next round. */
void network_kick(struct inbandd *d);
/* Discovers, replaces the model and subscribes to reports; done may be NULL. -EBUSY: the model is
 * in use. */
int network_discover(struct inbandd *d, void (*done)(void *arg, int status), void *arg);

/*
 * Finds ways round what is lost, and asks those whose way has changed (all: every switch) about
 * their links, for their reports may have been lost. done may be NULL. -EAGAIN: there is no model,
 * or it is being replaced.
 */
int network_refresh(struct inbandd *d, bool all, void (*done)(void *arg), void *arg);

/* What a counter of ports (fabric.h) counts in this network. */
const char *network_counter(const struct inbandd *d, unsigned counter);

/* A device has said that something there has changed: asks it about its links. */
void network_look(struct inbandd *d, struct device *device);

/* A device's name by the plan, or its own, or nrc:ID. */
const char *device_name(const struct inbandd *d, uint32_t device, char name[MACHINE_NAME_LEN]);
/* Where it stands, or "". */
const char *device_place(const struct inbandd *d, uint32_t device, int port,
			 char place[MACHINE_PLACE_LEN]);
struct device *device_find(const struct inbandd *d, const char *name);
/* The plan's chip of a device, MACHINE_NONE; the device of a chip, NULL. */
uint32_t device_chip(const struct inbandd *d, uint32_t device);
struct device *chip_device(const struct inbandd *d, uint32_t chip);
/* CHIP:PORT */
#define PORT_NAME_LEN (MACHINE_NAME_LEN + 16)
const char *port_name(const struct inbandd *d, uint32_t device, unsigned port,
		      char name[PORT_NAME_LEN]);

/*
 * routes.c: loads the plan's routes by what is up. progress and done may be NULL. -EBUSY: a load is
 * under way; -ENOENT: there is no plan; -EAGAIN: nothing has been discovered; others as of
 * load_begin().
 */
int routes_load(struct inbandd *d, load_progress *progress, load_done *done, void *arg);
/* Looks for switches that another server has left half-loaded. */
void routes_look(struct inbandd *d);
/* Links have changed: has routes loaded anew when nothing more does. */
void routes_changed(struct inbandd *d);
/* A link is back: no routes lead over it until it has stayed for a time. */
void routes_rest(struct inbandd *d, struct device *device, unsigned port);
/* A switch does not have the tables that were loaded: it has been reset, or is another one. */
void routes_lost(struct inbandd *d, const struct device *device);
/* The model is another one. */
void routes_forget(struct inbandd *d);
void routes_stop(struct inbandd *d);

/* commands.c */
int commands_start(struct inbandd *d);
/* Whether a command changes the network or what is known of it. Also of one that there is not. */
bool command_changes(const char *name);

#endif
