// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a running urxe-ipoib tells: its state and counters, its neighbours and its groups; and to
 * programs of the namespace which GID has an IP address ("resolve"), as rdma_cm needs it. The
 * loop's thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemons/common/client.h"
#include "daemons/common/counters.h"
#include "daemons/common/json.h"
#include "daemons/urxe-ipoib/urxe-ipoib.h"

#define ROW(member)                                          \
	{                                                    \
		COUNTER(struct ipoib_stats, member), #member \
	}

static const struct counter rows[] = {
	ROW(sent),	 ROW(received),		ROW(sent_bytes),    ROW(received_bytes),
	ROW(segments),	 ROW(merged),		ROW(drop_no_link),  ROW(drop_queue),
	ROW(drop_table), ROW(drop_unreachable), ROW(drop_no_group), ROW(drop_kernel),
	ROW(malformed),	 ROW(foreign),		ROW(questions),	    ROW(answers),
	ROW(asked),	 ROW(answered),		ROW(paths),	    ROW(paths_failed),
	ROW(joins),	 ROW(joins_failed),	ROW(send_errors),
};
static const struct counters counters = {rows, sizeof(rows) / sizeof(*rows)};

static void add_ip(struct json_object *to, const char *key, const struct in6_addr *ip)
{
	char text[INET6_ADDRSTRLEN];

	if (ipoib_is_ipv4(ip))
		inet_ntop(AF_INET, &ip->s6_addr[12], text, sizeof(text));
	else
		inet_ntop(AF_INET6, ip, text, sizeof(text));
	json_add_text(to, key, text);
}

static void status(struct control_client *client, struct json_object *request)
{
	const struct ipoib *ib = control_daemon(client);
	struct json_object *answer = json_object_new_object();

	json_add_text(answer, "name", ib->options.name);
	json_add_text(answer, "device", ibv_get_device_name(ib->context->device));
	json_add_number(answer, "port", ib->options.port);
	json_add_text(answer, "state", ib->carrier ? "up" : ib->active ? "joining" : "down");
	json_add_gid(answer, "gid", ib->gid.raw);
	json_add_hex(answer, "pkey", ib->pkey, 4);
	json_add_hex(answer, "qpn", ib->qpn, 6);
	json_add_hex(answer, "qkey", ib->qkey, 8);
	json_add_number(answer, "mtu", ib->mtu);
	counters_json(answer, &counters, &ib->stats);
	control_ok(client, answer);
}

static void tell_neighbour(void *arg, const struct neighbour_info *n)
{
	static const char *const states[] = {"incomplete", "reachable", "stale",
					     "delay",	   "probe",	"failed"};
	struct json_object *answer = json_object_new_object();

	add_ip(answer, "ip", &n->ip);
	json_add_text(answer, "state", states[n->state]);
	json_add_gid(answer, "gid", n->link.gid);
	json_add_hex(answer, "qpn", n->link.qpn, 6);
	if (n->has_path)
		json_add_number(answer, "lid", n->lid);
	control_send(arg, answer);
}

static void neighbours(struct control_client *client, struct json_object *request)
{
	neighbours_each(control_daemon(client), tell_neighbour, client);
	control_ok(client, json_object_new_object());
}

static void tell_group(void *arg, const struct group_info *group)
{
	struct json_object *answer = json_object_new_object();

	json_add_gid(answer, "mgid", group->mgid);
	json_add_hex(answer, "mlid", group->mlid, 4);
	json_add_text(answer, "state", group->joined ? "joined" : "absent");
	json_add_text(answer, "as", group->member ? "member" : "sender");
	control_send(arg, answer);
}

static void groups(struct control_client *client, struct json_object *request)
{
	groups_each(control_daemon(client), tell_group, client);
	control_ok(client, json_object_new_object());
}

static bool read_ip(const char *text, struct in6_addr *ip)
{
	struct in_addr four;

	if (inet_pton(AF_INET, text, &four) == 1) {
		ipoib_of_ipv4(ip, &four);
		return true;
	}
	return inet_pton(AF_INET6, text, ip) == 1;
}

/* 0; -EINPROGRESS: a neighbour is being asked for. n, and the address that packets leave from. */
static int look(struct ipoib *ib, const struct in6_addr *ip, struct neighbour_info *n,
		struct in6_addr *from)
{
	struct in6_addr hop;

	if (!ib->carrier)
		return -ENETUNREACH;
	if (kernel_is_own(ib, ip)) {
		memcpy(n->link.gid, &ib->gid, 16);
		*from = *ip;
		return 0;
	}
	if (!kernel_leads_to(ib, ip, &hop) || !kernel_source(ib, &hop, from))
		return -ENETUNREACH;
	return neighbour_resolve(ib, &hop, n);
}

/* Answers at once: whoever asks while a neighbour is being asked for comes again. */
static void resolve(struct control_client *client, struct json_object *request)
{
	struct ipoib *ib = control_daemon(client);
	struct neighbour_info n = {};
	struct json_object *answer;
	struct in6_addr ip, from;
	const char *text = NULL;
	int ret;

	if (!json_get_text(request, "ip", &text) || !text || !read_ip(text, &ip)) {
		control_fail(client, "\"ip\" is an IP address");
		return;
	}
	ret = look(ib, &ip, &n, &from);
	if (ret && ret != -EINPROGRESS) {
		control_fail(client, "%s", strerrorname_np(-ret));
		return;
	}
	answer = json_object_new_object();
	add_ip(answer, "from", &from);
	json_add_gid(answer, "own", ib->gid.raw);
	json_add_hex(answer, "pkey", ib->pkey, 4);
	if (!ret)
		json_add_gid(answer, "gid", n.link.gid);
	control_ok(client, answer);
}

const struct control_command ipoib_commands[] = {
	{"status", status}, {"neighbours", neighbours}, {"groups", groups}, {"resolve", resolve}};
const unsigned ipoib_num_commands = sizeof(ipoib_commands) / sizeof(*ipoib_commands);

/* ---- the other end ---- */

static void print(struct json_object *line)
{
	json_object_object_foreach(line, key, value)
	{
		if (strcmp(key, "ok"))
			printf("%s %s  ", key, json_object_get_string(value));
	}
	putchar('\n');
}

static void print_status(struct json_object *answer)
{
	json_object_object_foreach(answer, key, value)
	{
		if (strcmp(key, "ok"))
			printf("%-17s %s\n", key, json_object_get_string(value));
	}
}

int command_line(int argc, char **argv)
{
	struct client client = {
		.daemon = "urxe-ipoib",
		.cure = "`ip link` lists the interfaces of this network namespace, `urxe ipoib "
			"--host HOST` makes one on a virtual fabric",
		.timeout = 10,
		.keep = true,
		.fd = -1,
		.each = print};
	struct json_object *request, *answer = NULL;
	char socket[64];
	int ret;

	if (argc < 4 || argc > 5) {
		client_error("usage: urxe-ipoib -s NAME status | neighbours | groups | resolve IP");
		return CLIENT_USAGE;
	}
	snprintf(socket, sizeof(socket), CONTROL_PREFIX "%.15s", argv[2]);
	client.socket = socket;
	request = json_object_new_object();
	json_add_text(request, "command", argv[3]);
	if (argc == 5)
		json_add_text(request, "ip", argv[4]);
	ret = client_open(&client);
	if (!ret)
		ret = client_ask(&client, request, &answer);
	if (!ret)
		print_status(answer);
	json_object_put(answer);
	client_close(&client);
	return ret;
}
