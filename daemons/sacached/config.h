/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sacached's configuration, read by daemons/common/config_file.h. sacached.conf(5) says what each
 * key does; keys[] in config.c is the list. Plain data; the loop's thread.
 */
#ifndef SACACHED_CONFIG_H
#define SACACHED_CONFIG_H

#include <stdbool.h>

#include "daemons/common/config_file.h"
#include "libsacache/sacache.h"

#define CONFIG_PATH_LEN 256

enum config_tcp { CONFIG_TCP_OFF, CONFIG_TCP_LOOPBACK, CONFIG_TCP_ANY };

/* port CA or port CA:NUMBER */
struct config_port {
	char ca[32];
	unsigned portnum; /* 0: all of the device */
};

struct sacached_config {
	struct sacache_attr cache; /* policy, drop, max_entries … retries */
	struct config_port ports[SACACHE_MAX_PORTS];
	unsigned nports;	     /* 0: all InfiniBand ports of the host */
	unsigned deadline;	     /* ms; for an answer to a client */
	char hosts[CONFIG_PATH_LEN]; /* "": none */
	char ibacm_dir[64];	     /* of ibacm.sock and the other links */
	char run_dir[80];	     /* of the sockets themselves */
	enum config_tcp tcp;
	unsigned tcp_port;
	unsigned spin;		  /* us to poll for the next request before sleeping; 0: none */
	unsigned max_clients;	  /* 0: as many as descriptors allow */
	bool netlink;		  /* answer the kernel's path queries */
	unsigned kernel_timeout;  /* ms the kernel waits for an answer; 0: the kernel's own value */
	char user[32];		  /* "": unchanged */
	char control_socket[100]; /* "": none */
	char control_group[32];	  /* may use it beside root; "": none */
	char metrics_listen[64];  /* address:port; "": none */
	char state_file[CONFIG_PATH_LEN]; /* "": none */
	unsigned state_interval;	  /* s; 0: only at the end */
	char import[CONFIG_PATH_LEN];	  /* of opensm_full_v1; "": none */
	bool state_confirm; /* what it has is not believed before the SA has confirmed it */
	bool prefetch;
	int log_level;
};

extern const struct config_table sacached_config_table;

/* The defaults. */
void sacached_config_init(struct sacached_config *config);

#endif
