/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* inbandd's configuration: see inbandd.conf(5). */
#include <syslog.h>

#include "daemons/inbandd/inbandd.h"
#include "inband/manage/requester.h"

#define MEMBER(member) CONFIG_MEMBER(struct inbandd_config, member)

static const struct config_key keys[] = {
	{"network", CONFIG_CHOICE, MEMBER(network), .choices = "thsim infiniband "},
	{"ib_port", CONFIG_TEXT, MEMBER(ib_port)},
	{"thsim", CONFIG_TEXT, MEMBER(thsim)},
	{"nic", CONFIG_NUMBER, MEMBER(nic), 0, 7},
	{"plan", CONFIG_TEXT, MEMBER(plan)},
	{"plan_file", CONFIG_TEXT, MEMBER(plan_file)},
	{"load", CONFIG_TEXT, MEMBER(load)},
	{"database", CONFIG_TEXT, MEMBER(database)},
	{"keep", CONFIG_NUMBER, MEMBER(keep), 0, 36500},
	{"scan", CONFIG_NUMBER, MEMBER(scan), 0, 86400, .live = true},
	{"thresholds", CONFIG_TEXT, MEMBER(thresholds)},
	{"counters", CONFIG_TEXT, MEMBER(counters)},
	{"counters_traffic", CONFIG_YES_NO, MEMBER(counters_traffic), .live = true},
	{"window", CONFIG_NUMBER, MEMBER(window), 1, REQUESTER_MAX_WINDOW},
	{"slow_window", CONFIG_NUMBER, MEMBER(slow_window), 1, REQUESTER_MAX_WINDOW},
	{"per_chip", CONFIG_NUMBER, MEMBER(per_chip), 1, 64},
	{"budget", CONFIG_NUMBER, MEMBER(budget), 0, 1000000000},
	{"timeout", CONFIG_NUMBER, MEMBER(timeout), 1, 60000},
	{"tries", CONFIG_NUMBER, MEMBER(tries), 1, 16},
	{"discover", CONFIG_YES_NO, MEMBER(discover)},
	{"hold", CONFIG_NUMBER, MEMBER(hold), 0, 10000, .live = true},
	{"sweep", CONFIG_NUMBER, MEMBER(sweep), 0, 86400, .live = true},
	{"reroute", CONFIG_NUMBER, MEMBER(reroute), 0, 86400, .live = true},
	{"settle", CONFIG_NUMBER, MEMBER(settle), 0, 86400, .live = true},
	{"hold_down", CONFIG_NUMBER, MEMBER(hold_down), 0, 3600000, .live = true},
	{"control_socket", CONFIG_TEXT, MEMBER(control_socket)},
	{"control_group", CONFIG_TEXT, MEMBER(control_group)},
	{"metrics_listen", CONFIG_TEXT, MEMBER(metrics_listen)},
	{"http_listen", CONFIG_TEXT, MEMBER(http_listen)},
	{"http_tokens", CONFIG_TEXT, MEMBER(http_tokens)},
	{"http_dygraphs", CONFIG_TEXT, MEMBER(http_dygraphs)},
	{"http_remote", CONFIG_YES_NO, MEMBER(http_remote)},
	{"log_level", CONFIG_CHOICE, MEMBER(log_level), .choices = CONFIG_LOG_LEVELS, .live = true},
};

const struct config_table inbandd_config_table = {
	.keys = keys,
	.count = sizeof(keys) / sizeof(keys[0]),
	.page = "inbandd(8)",
};

void inbandd_config_init(struct inbandd_config *config)
{
	*config = (struct inbandd_config){
		.window = 64,
		.slow_window = 1600,
		.per_chip = 4,
		.timeout = 1000,
		.tries = 4,
		.discover = true,
		.hold = 5,
		.keep = 365,
		.hold_down = 1000,
		.settle = 10,
		.sweep = 60,
		.control_socket = "/run/inbandd/control.sock",
		.http_listen = INBANDD_HTTP,
		.http_dygraphs = "/usr/share/javascript/dygraphs",
		.log_level = LOG_INFO,
	};
}
