// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* lidtrackd's configuration: see lidtrackd(8). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "daemons/common/log.h"
#include "daemons/lidtrackd/lidtrackd.h"
#include "migrate/guid2lid.h"

#define MEMBER(member) CONFIG_MEMBER(struct lidtrackd_config, member)

static int set_peer(void *to, const char *value, const struct config_place *at)
{
	struct lidtrackd_config *config = to;
	struct peer peer = {0}; /* compared with that of before, byte by byte */
	char rest;

	if (sscanf(value, "%63s %107s %c", peer.host, peer.address, &rest) != 2 ||
	    !record_name_valid(peer.host))
		return config_bad(at, "peer: a host's name and the path or address of its agent");
	if (config->num_peers == MAX_PEERS)
		return config_bad(at, "peer: there can be %d", MAX_PEERS);
	config->peers[config->num_peers++] = peer;
	return 0;
}

static int set_pool(void *to, const char *value, const struct config_place *at)
{
	struct lidtrackd_config *config = to;
	unsigned long long first, count;
	char rest;

	if (sscanf(value, "0x%llx %llu %c", &first, &count, &rest) != 2 || !first || !count ||
	    count > 65536 || first + count < first)
		return config_bad(at, "pool: the first GUID (0x…) and how many");
	config->pool_first = first;
	config->pool_count = count;
	return 0;
}

static const struct config_key keys[] = {
	{"host", CONFIG_TEXT, MEMBER(host), 1},
	{"mode", CONFIG_CHOICE, MEMBER(mode), .choices = "own shared-port "},
	{"tracker", CONFIG_TEXT, MEMBER(tracker)},
	{"guid2lid", CONFIG_TEXT, MEMBER(guid2lid)},
	{"lids", CONFIG_TEXT, MEMBER(lids)},
	{"apply", CONFIG_CHOICE, MEMBER(apply), .choices = "plugin handover restart "},
	{"restart_command", CONFIG_TEXT, MEMBER(restart_command)},
	{"floating_from", CONFIG_NUMBER, MEMBER(floating_from), 0, GUID2LID_MAX_LID},
	{"follow", CONFIG_TEXT, MEMBER(follow)},
	{"follow_every", CONFIG_NUMBER, MEMBER(follow_every), 10, 3600000, .live = true},
	{"gather", CONFIG_NUMBER, MEMBER(gather), 0, 60000, .live = true},
	{"journal", CONFIG_TEXT, MEMBER(journal), 1},
	{"functions", CONFIG_TEXT, MEMBER(functions), 1},
	{"listen", CONFIG_TEXT, MEMBER(listen)},
	{"peer", CONFIG_OTHER, MEMBER(peers), .set = set_peer},
	{"pool", CONFIG_OTHER, MEMBER(pool_first), .set = set_pool},
	{"tls_ca", CONFIG_TEXT, MEMBER(tls_ca)},
	{"tls_certificate", CONFIG_TEXT, MEMBER(tls_certificate)},
	{"tls_key", CONFIG_TEXT, MEMBER(tls_key)},
	{"device", CONFIG_TEXT, MEMBER(ca_name)},
	{"port", CONFIG_NUMBER, MEMBER(port), 0, 254},
	{"sm_key", CONFIG_NUMBER, MEMBER(sm_key), 0, UINT64_MAX},
	{"guest_command", CONFIG_TEXT, MEMBER(guest_command)},
	{"libvirt", CONFIG_TEXT, MEMBER(libvirt)},
	{"retry", CONFIG_NUMBER, MEMBER(retry), 1, 60000, .live = true},
	{"watch", CONFIG_NUMBER, MEMBER(watch), 10, 3600000, .live = true},
	{"control_socket", CONFIG_TEXT, MEMBER(control_socket)},
	{"control_group", CONFIG_TEXT, MEMBER(control_group)},
	{"metrics_listen", CONFIG_TEXT, MEMBER(metrics_listen)},
	{"log_level", CONFIG_CHOICE, MEMBER(log_level), .choices = CONFIG_LOG_LEVELS, .live = true},
};

const struct config_table lidtrackd_config_table = {
	.keys = keys,
	.count = sizeof(keys) / sizeof(keys[0]),
	.page = "lidtrackd(8)",
};

void lidtrackd_config_init(struct lidtrackd_config *config)
{
	*config = (struct lidtrackd_config){
		.journal = "/var/lib/lidtrackd/journal",
		.listen = "/run/lidtrackd/agent.sock",
		.guid2lid = "/var/cache/opensm/guid2lid",
		.lids = "/var/lib/lidtrackd/lids",
		.gather = 100,
		.follow_every = 2000,
		.sm_key = 1,
		.retry = 20,
		.watch = 5000,
		.control_socket = "/run/lidtrackd/control.sock",
		.log_level = LOG_INFO,
	};
	gethostname(config->host, sizeof(config->host) - 1);
	config->host[strcspn(config->host, ".")] = '\0';
}

const struct peer *peer_of(const struct lidtrackd *d, const char *host)
{
	for (unsigned i = 0; i < d->config.num_peers; i++)
		if (!strcmp(d->config.peers[i].host, host))
			return &d->config.peers[i];
	return NULL;
}

static int check_functions(struct lidtrackd *d)
{
	char *blank;

	snprintf(d->kind, sizeof(d->kind), "%s", d->config.functions);
	blank = strchr(d->kind, ' ');
	if (blank) {
		*blank = '\0';
		d->provider = function_provider(d->kind);
		d->where = blank + 1 + strspn(blank + 1, " ");
	}
	if (d->provider)
		return 0;
	log_error("functions: a kind and where, \"fabric h1\", \"mlx5 ib0\", \"mlx4 mlx4_0:1\" or "
		  "\"file PATH\"");
	return -EINVAL;
}

static bool is_address(const char *key, const char *address)
{
	if (link_is_local(address) || strchr(address, ':'))
		return true;
	log_error("%s %s: an absolute path, or ADDRESS:PORT", key, address);
	return false;
}

static int check_peers(struct lidtrackd *d)
{
	bool remote = d->config.listen[0] && !link_is_local(d->config.listen);

	if (d->config.listen[0] && !is_address("listen", d->config.listen))
		return -EINVAL;
	for (unsigned i = 0; i < d->config.num_peers; i++) {
		if (!strcmp(d->config.peers[i].host, d->config.host)) {
			log_error("peer %s is this host itself", d->config.host);
			return -EINVAL;
		}
		if (peer_of(d, d->config.peers[i].host) != &d->config.peers[i]) {
			log_error("peer %s: there are two lines", d->config.peers[i].host);
			return -EINVAL;
		}
		if (!is_address(d->config.peers[i].host, d->config.peers[i].address))
			return -EINVAL;
		remote = remote || !link_is_local(d->config.peers[i].address);
	}
	if (!remote || d->config.tls_ca[0])
		return 0;
	log_error("agents of other machines need tls_ca, tls_certificate and tls_key");
	return -EINVAL;
}

int lidtrackd_config_check(struct lidtrackd *d)
{
	if (!record_name_valid(d->config.host)) {
		log_error("host: a name of letters, digits, '.', '_' and '-'");
		return -EINVAL;
	}
	if (check_functions(d) || check_peers(d))
		return -EINVAL;
	if (d->config.mode == MODE_SHARED_PORT && d->config.apply == APPLY_RESTART &&
	    !d->config.restart_command[0]) {
		log_error("apply restart: needs restart_command, which restarts OpenSM");
		return -EINVAL;
	}
	if (d->config.follow[0] && !peer_of(d, d->config.follow)) {
		log_error("follow: %s is no peer", d->config.follow);
		return -EINVAL;
	}
	if (d->config.mode == MODE_OWN || !strcmp(d->config.tracker, d->config.host) ||
	    peer_of(d, d->config.tracker))
		return 0;
	log_error("tracker: shared-port needs the host of the agent that tells the SM, which is "
		  "this one "
		  "or a peer");
	return -EINVAL;
}
