/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The keys of sacached.conf and their defaults. Constant.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/log.h"
#include "daemons/sacached/config.h"

#define MEMBER(name) CONFIG_MEMBER(struct sacached_config, name)

static int add_port(void *arg, const char *value, const struct config_place *at)
{
	struct sacached_config *config = arg;
	const char *colon = strchr(value, ':');
	size_t len = colon ? (size_t)(colon - value) : strlen(value);
	struct config_port port = {.portnum = 0};
	unsigned long number = 0;
	char *end = NULL;

	if (colon)
		number = strtoul(colon + 1, &end, 10);
	if (!len || len >= sizeof(port.ca) || strpbrk(value, "/ \t") ||
	    (colon && (*end || !isdigit((unsigned char)colon[1]) || !number || number > 254)))
		return config_bad(
			at,
			"\"%.64s\" is no port: write the device, or device:number, as in mlx5_0:1",
			value);
	if (config->nports == SACACHE_MAX_PORTS)
		return config_bad(at, "more than %u ports", SACACHE_MAX_PORTS);
	memcpy(port.ca, value, len);
	port.portnum = number;
	config->ports[config->nports++] = port;
	return 0;
}

static const struct config_key keys[] = {
	{"policy", CONFIG_CHOICE, MEMBER(cache.policy), .choices = "auto always never "},
	{"drop", CONFIG_YES_NO, MEMBER(cache.drop)},
	{"max_entries", CONFIG_NUMBER, MEMBER(cache.max_entries), 1, 1 << 24},
	{"negative", CONFIG_NUMBER, MEMBER(cache.negative), 0, 3600000},
	{"suspect_limit", CONFIG_NUMBER, MEMBER(cache.suspect_limit), 1, 15},
	{"suspect_backoff", CONFIG_NUMBER, MEMBER(cache.suspect_backoff), 1, 3600000},
	{"window", CONFIG_NUMBER, MEMBER(cache.window), 1, 256},
	{"rate", CONFIG_NUMBER, MEMBER(cache.rate), 0, 1000000},
	{"queue", CONFIG_NUMBER, MEMBER(cache.queue), 1, 1 << 20},
	{"response_timeout", CONFIG_NUMBER, MEMBER(cache.response_timeout), 10, 60000},
	{"retries", CONFIG_NUMBER, MEMBER(cache.retries), 0, 15},
	{"max_records", CONFIG_NUMBER, MEMBER(cache.max_records), 1, 1 << 20},
	{"notices", CONFIG_NUMBER, MEMBER(cache.notices), 0, 86400000},
	{"port", CONFIG_OTHER, MEMBER(ports), .set = add_port},
	{"deadline", CONFIG_NUMBER, MEMBER(deadline), 10, 60000, .live = true},
	{"hosts", CONFIG_TEXT, MEMBER(hosts), .live = true},
	{"ibacm_dir", CONFIG_TEXT, MEMBER(ibacm_dir), .least = 1},
	{"run_dir", CONFIG_TEXT, MEMBER(run_dir), .least = 1},
	{"tcp", CONFIG_CHOICE, MEMBER(tcp), .choices = "off loopback any "},
	{"tcp_port", CONFIG_NUMBER, MEMBER(tcp_port), 1, 65535},
	{"max_clients", CONFIG_NUMBER, MEMBER(max_clients), 0, 1 << 20, .live = true},
	{"spin", CONFIG_NUMBER, MEMBER(spin), 0, 1000, .live = true},
	{"netlink", CONFIG_YES_NO, MEMBER(netlink)},
	{"kernel_timeout", CONFIG_NUMBER, MEMBER(kernel_timeout), 0, 200000},
	{"user", CONFIG_TEXT, MEMBER(user)},
	{"control_socket", CONFIG_TEXT, MEMBER(control_socket)},
	{"control_group", CONFIG_TEXT, MEMBER(control_group)},
	{"metrics_listen", CONFIG_TEXT, MEMBER(metrics_listen)},
	{"state_file", CONFIG_TEXT, MEMBER(state_file)},
	{"state_interval", CONFIG_NUMBER, MEMBER(state_interval), 0, 86400, .live = true},
	{"import", CONFIG_TEXT, MEMBER(import)},
	{"state_confirm", CONFIG_YES_NO, MEMBER(state_confirm), .live = true},
	{"prefetch", CONFIG_YES_NO, MEMBER(prefetch)},
	{"log_level", CONFIG_CHOICE, MEMBER(log_level), .choices = CONFIG_LOG_LEVELS, .live = true},
};

const struct config_table sacached_config_table = {
	.keys = keys,
	.count = sizeof(keys) / sizeof(keys[0]),
	.page = "sacached.conf(5)",
};

void sacached_config_init(struct sacached_config *config)
{
	*config = (struct sacached_config){
		.deadline = 4000,
		.hosts = SACACHED_HOSTS,
		.ibacm_dir = SACACHED_RUN,
		.run_dir = SACACHED_RUN "/sacached",
		.tcp_port = 6125,
		.spin = 50,
		.netlink = true,
		.control_socket = SACACHED_RUN "/sacached/control.sock",
		.state_file = SACACHED_STATE "/sacached/state",
		.state_interval = 300,
		.state_confirm = true,
		.log_level = LOG_INFO,
	};
	sacache_attr_init(&config->cache, sizeof(config->cache));
	config->cache.notices = 600000;
}
