/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Alarms. Reports of chips are gathered for a moment (hold), and then what they have in common is
 * one alarm: the two ends of a link, all links of a chip, all links out of a switch of several
 * chips. An alarm is cleared when its fault has been gone for a time (hold_down); until then it
 * counts how often the fault came back, so that a flapping link is one alarm. The loop's thread.
 */
#ifndef INBANDD_ALARMS_H
#define INBANDD_ALARMS_H

#include "daemons/inbandd/inbandd.h"

enum severity { SEVERITY_WARNING, SEVERITY_MINOR, SEVERITY_MAJOR, SEVERITY_CRITICAL, SEVERITIES };
enum alarm_kind { ALARM_COUNTERS, ALARM_LINK, ALARM_CHIP, ALARM_SWITCH, ALARM_RESET, ALARM_KINDS };

struct alarm {
	struct alarm *next;
	uint32_t id;
	uint8_t kind, severity;
	bool active, acknowledged;
	uint8_t light;		 /* ends that see light */
	uint32_t device, port;	 /* a link: the lower end; a switch of several chips: the first */
	uint32_t device2, port2; /* the other end; MODEL_NONE */
	uint32_t count;		 /* times it was raised */
	uint64_t first, last;	 /* ms since 1970 */
	uint64_t gone;		 /* clock_ms() when the fault had gone; 0: it is there */
};

int alarms_start(struct inbandd *d, struct alarms **alarms);
void alarms_stop(struct alarms *alarms);
/* The model is another one: what was known is in it now. */
void alarms_forget(struct alarms *alarms);
void alarms_report(void *arg, const struct fabric_report *report);
/* What a switch says of one of its links when it is asked: enum neighbour_state. */
void alarms_link(struct inbandd *d, struct device *device, unsigned port, unsigned state);
/* A port's counters have grown by more than they should: its model_port.noisy is set. */
void alarms_noisy(struct inbandd *d, uint32_t device, unsigned port);
/* Some of what there was may be over. */
void alarms_look(struct inbandd *d);
/* An event: the state of a link is another one. */
void link_tell(struct inbandd *d, const struct device *device, unsigned port);
const struct alarm *alarms_first(const struct alarms *alarms);
/* -ENOENT: there is no such alarm. */
int alarms_acknowledge(struct alarms *alarms, uint32_t id, const char *who);
/* Active ones, by severity. */
void alarms_count(const struct alarms *alarms, unsigned counts[SEVERITIES]);
struct json_object *alarm_json(const struct inbandd *d, const struct alarm *alarm);
const char *severity_name(unsigned severity);

#endif
