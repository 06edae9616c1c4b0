/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The configuration: which leaves, spines and ports there are, and what links are like. Lines
 * "key value"; leaf, spine, port and slower may be repeated. docs/urxe-switch.8.scd describes it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/config_file.h"
#include "daemons/common/log.h"
#include "daemons/urxe-switch/switch.h"

static int add_names(char names[][16], unsigned *n, unsigned most, const char *value,
		     const struct config_place *at)
{
	while (*value) {
		size_t len = strcspn(value, " \t");

		if (len > 15 || *n == most)
			return config_bad(at, "at most %u names of 15 characters", most);
		memcpy(names[*n], value, len);
		names[*n][len] = '\0';
		for (unsigned i = 0; i < *n; i++)
			if (!strcmp(names[i], names[*n]))
				return config_bad(at, "%s is there twice", names[i]);
		++*n;
		value += len;
		value += strspn(value, " \t");
	}
	return 0;
}

static int find(char names[][16], unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return (int)i;
	return -1;
}

static int set_leaf(void *config, const char *value, const struct config_place *at)
{
	struct settings *s = config;

	return add_names(s->leaves, &s->num_leaves, MAX_LEAVES, value, at);
}

static int set_spine(void *config, const char *value, const struct config_place *at)
{
	struct settings *s = config;

	return add_names(s->spines, &s->num_spines, MAX_SPINES, value, at);
}

/* port LEAF tap NAME | port LEAF unix OWN PEER */
static int set_port(void *config, const char *value, const struct config_place *at)
{
	struct settings *s = config;
	struct port_settings *port = &s->ports[s->num_ports];
	char leaf[16], kind[8], name[108], peer[108], more;
	int n = sscanf(value, "%15s %7s %107s %107s %c", leaf, kind, name, peer, &more);
	int number = n > 0 ? find(s->leaves, s->num_leaves, leaf) : -1;
	bool tap = n == 3 && !strcmp(kind, "tap"), dgram = n == 4 && !strcmp(kind, "unix");

	if (!tap && !dgram)
		return config_bad(at, "want: LEAF tap NAME, or LEAF unix SOCKET PEER-SOCKET");
	if (number < 0)
		return config_bad(at, "there is no leaf %s before this line", leaf);
	if (s->num_ports == MAX_PORTS)
		return config_bad(at, "at most %u ports", MAX_PORTS);
	if (tap && strlen(name) >= IFNAMSIZ)
		return config_bad(at, "an interface has a name of 15 characters");
	*port = (struct port_settings){.leaf = (uint8_t)number, .kind = tap ? PORT_TAP : PORT_UNIX};
	strcpy(port->name, name);
	if (dgram)
		strcpy(port->peer, peer);
	s->num_ports++;
	return 0;
}

static int units(const char *value, const char *const *names, const uint64_t *factors,
		 uint64_t most, uint64_t *result)
{
	char *end;
	uint64_t n;

	errno = 0;
	n = strtoull(value, &end, 10);
	if (end == value || errno || *value == '-' || n > most)
		return -EINVAL;
	for (; *names; names++, factors++) {
		if (strcmp(end, *names))
			continue;
		if (*factors && n > UINT64_MAX / *factors)
			return -EINVAL;
		*result = n * *factors;
		return 0;
	}
	return -EINVAL;
}

static int time_of(const char *value, uint64_t *ps)
{
	static const char *const names[] = {"ns", "us", "ms", "s", NULL};
	static const uint64_t factors[] = {1000, 1000000, 1000000000, 1000000000000};

	return units(value, names, factors, 100000, ps);
}

static int set_rate_of(uint64_t *rate, const char *value, const struct config_place *at)
{
	static const char *const names[] = {"", "k", "M", "G", NULL};
	static const uint64_t factors[] = {1, 1000, 1000000, 1000000000};

	if (!strcmp(value, "unlimited"))
		*rate = 0;
	else if (units(value, names, factors, 1000000000, rate) || *rate < 10000 ||
		 *rate > 400000000000)
		return config_bad(at, "%s is not a rate from 10k to 400G, or unlimited", value);
	return 0;
}

static int set_rate(void *config, const char *value, const struct config_place *at)
{
	return set_rate_of(&((struct settings *)config)->rate, value, at);
}

static int set_host_rate(void *config, const char *value, const struct config_place *at)
{
	return set_rate_of(&((struct settings *)config)->host_rate, value, at);
}

static int set_time(uint64_t *ps, const char *value, const struct config_place *at)
{
	if (time_of(value, ps) || *ps > 10000000000000)
		return config_bad(at, "%s is not a time as 50us or 2ms, of at most 10s", value);
	return 0;
}

static int set_delay(void *config, const char *value, const struct config_place *at)
{
	return set_time(&((struct settings *)config)->delay, value, at);
}

static int set_high(void *config, const char *value, const struct config_place *at)
{
	return set_time(&((struct settings *)config)->high, value, at);
}

static int set_gain(void *config, const char *value, const struct config_place *at)
{
	return set_time(&((struct settings *)config)->gain, value, at);
}

static int set_hold(void *config, const char *value, const struct config_place *at)
{
	struct settings *s = config;
	int ret = set_time(&s->hold, value, at);

	return ret || s->hold ? ret : config_bad(at, "more than 0");
}

/* slower SPINE TIME */
static int set_slower(void *config, const char *value, const struct config_place *at)
{
	struct settings *s = config;
	char name[16], text[32], more;
	int spine;

	if (sscanf(value, "%15s %31s %c", name, text, &more) != 2 || s->num_slower == MAX_SPINES)
		return config_bad(at, "want: SPINE TIME");
	spine = find(s->spines, s->num_spines, name);
	if (spine < 0)
		return config_bad(at, "there is no spine %s before this line", name);
	s->slower[s->num_slower].spine = (uint8_t)spine;
	return set_time(&s->slower[s->num_slower++].delay, text, at);
}

#define MEMBER(member) CONFIG_MEMBER(struct settings, member)

static const struct config_key keys[] = {
	{"leaf", CONFIG_OTHER, MEMBER(leaves), .set = set_leaf},
	{"spine", CONFIG_OTHER, MEMBER(spines), .set = set_spine},
	{"port", CONFIG_OTHER, MEMBER(ports), .set = set_port},
	{"rate", CONFIG_OTHER, MEMBER(rate), .set = set_rate},
	{"host_rate", CONFIG_OTHER, MEMBER(host_rate), .set = set_host_rate},
	{"delay", CONFIG_OTHER, MEMBER(delay), .set = set_delay},
	{"slower", CONFIG_OTHER, MEMBER(slower), .set = set_slower},
	{"queues", CONFIG_NUMBER, MEMBER(queues), 0, REORDER_QUEUES},
	{"frames", CONFIG_NUMBER, MEMBER(frames), 64, 65536},
	{"buffer", CONFIG_NUMBER, MEMBER(buffer_kb), 64, 1048576},
	{"xoff", CONFIG_NUMBER, MEMBER(xoff_kb), 32, 1048576},
	{"mark_min", CONFIG_NUMBER, MEMBER(mark_min_kb), 0, 1048576},
	{"mark_max", CONFIG_NUMBER, MEMBER(mark_max_kb), 1, 1048576},
	{"mark_all", CONFIG_YES_NO, MEMBER(mark_all)},
	{"high", CONFIG_OTHER, MEMBER(high), .set = set_high},
	{"gain", CONFIG_OTHER, MEMBER(gain), .set = set_gain},
	{"hold", CONFIG_OTHER, MEMBER(hold), .set = set_hold},
	{"reroute_every", CONFIG_NUMBER, MEMBER(reroute_every), 0, 1000000},
	{"reorder", CONFIG_YES_NO, MEMBER(reorder)},
	{"control_socket", CONFIG_TEXT, MEMBER(control_socket)},
	{"metrics_listen", CONFIG_TEXT, MEMBER(metrics_listen)},
	{"log_level", CONFIG_CHOICE, MEMBER(log_level), .choices = CONFIG_LOG_LEVELS},
};
static const struct config_table table = {keys, sizeof(keys) / sizeof(keys[0]), "urxe-switch(8)"};

const struct config_table *settings_table(void)
{
	return &table;
}

void settings_defaults(struct settings *s)
{
	*s = (struct settings){
		.queues = 1,
		.frames = 8192,
		.flows = 4096,
		.buffer_kb = 16384,
		.xoff_kb = 2048,
		.mark_min_kb = 100,
		.mark_max_kb = 400,
		.high = 100000000,
		.gain = 100000000,
		.hold = 100000000000,
		.reorder = true,
		.log_level = LOG_INFO,
	};
}

/* What still comes between a PAUSE and its effect must find room. */
static void check_headroom(const struct settings *s)
{
	uint64_t slowest = 0, need;

	for (unsigned i = 0; i < s->num_slower; i++)
		if (s->slower[i].delay > slowest)
			slowest = s->slower[i].delay;
	need = (uint64_t)((double)s->rate / 8e12 * (double)(2 * s->delay + slowest)) +
	       3 * MAX_FRAME;
	if (need >> 10 > s->buffer_kb - s->xoff_kb)
		log_warning(
			"frames may be lost in spite of PFC: at this rate and delay a buffer has "
			"%llu KB more than xoff",
			(unsigned long long)(need >> 10) + 1);
}

int settings_check(const struct settings *s)
{
	const char *wrong = NULL;

	if (s->num_leaves < 1 || s->num_spines < 1)
		wrong = "there must be a leaf and a spine";
	else if (!s->num_ports)
		wrong = "there is no port";
	else if (s->mark_max_kb <= s->mark_min_kb)
		wrong = "mark_max must be larger than mark_min";
	else if (s->xoff_kb >= s->buffer_kb)
		wrong = "buffer must be larger than xoff";
	if (wrong)
		log_error("%s; see urxe-switch(8)", wrong);
	else
		check_headroom(s);
	return wrong ? -EINVAL : 0;
}

int settings_load(struct settings *s, const struct config_source *source)
{
	int ret;

	settings_defaults(s);
	ret = config_load(&table, s, source);
	return ret ? ret : settings_check(s);
}
