/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* inbandctl: the command line (main.c), and answers for people (print.c). One thread. */
#ifndef INBANDCTL_H
#define INBANDCTL_H

#include <json-c/json.h>

/* Statuses beside those of enum client_status: the answer has something that wants attention. */
enum { STATUS_WARNING = 4, STATUS_MAJOR = 5, STATUS_CRITICAL = 6 };

#define EEPROM_BYTES 65536
/* Where print_eeprom() and print_text() put what they got. */
extern const char *output_file;

/* Each prints an answer and returns a status. */
int print_status(struct json_object *answer);
int print_discovery(struct json_object *answer);
int print_findings(struct json_object *answer);
int print_device(struct json_object *answer);
int print_trace(struct json_object *answer);
int print_bist(struct json_object *answer);
int print_load(struct json_object *answer);
int print_value(struct json_object *answer);
int print_scan(struct json_object *answer);
int print_eeprom(struct json_object *answer);
int print_events(struct json_object *answer);
int print_audit(struct json_object *answer);
/* A list of baselines, or findings. */
int print_baselines(struct json_object *answer);
int print_suppressed(struct json_object *answer);
int print_text(struct json_object *answer);
int print_alarms(struct json_object *answer);
int print_nothing(struct json_object *answer);
/* A line of watch. */
void print_event(struct json_object *line);

#endif
