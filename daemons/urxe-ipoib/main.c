// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * urxe-ipoib's beginning and end: one IP interface on one partition of an InfiniBand port, for as
 * long as it runs. `urxe ipoib` starts it on a host of a virtual fabric. One thread, and
 * libsacache's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/command.h"
#include "daemons/common/log.h"
#include "daemons/common/startup.h"
#include "daemons/urxe-ipoib/urxe-ipoib.h"

static const char usage[] =
	"usage: urxe-ipoib [OPTION]... [ADDRESS/PREFIX]...\n"
	"       urxe-ipoib -s NAME status | neighbours | groups | resolve IP\n"
	"  -D, --device NAME  of libibverbs; the first InfiniBand device without it\n"
	"  -p, --port N       of the device; 1 without it\n"
	"  -P, --pkey P_KEY   of the partition; the first of the port's table without it\n"
	"  -n, --dev NAME     of the interface; ib0, with -P ib0.8001 for partition 0x8001\n"
	"  -r, --ready FD     a pipe to be told that it is up, or waits\n"
	"  -v, --verbose      says what it does\n"
	"IP over InfiniBand (RFC 4391) in a program; see urxe-ipoib(8).\n";

static int ready_fd = -1;

static void tell_ready(struct ipoib *ib)
{
	(void)!write(ready_fd, "!", 1);
	close(ready_fd);
}

static bool read_address(struct ipoib_options *o, const char *word)
{
	char text[INET6_ADDRSTRLEN], *end;
	const char *slash = strchr(word, '/');
	struct in_addr four;
	unsigned most = 128, i = o->num_addresses;
	unsigned long prefix;

	if (!slash || slash == word || (size_t)(slash - word) >= sizeof(text) ||
	    i == sizeof(o->addresses) / sizeof(*o->addresses))
		return false;
	memcpy(text, word, (size_t)(slash - word));
	text[slash - word] = '\0';
	if (inet_pton(AF_INET, text, &four) == 1) {
		ipoib_of_ipv4(&o->addresses[i].ip, &four);
		most = 32;
	} else if (inet_pton(AF_INET6, text, &o->addresses[i].ip) != 1) {
		return false;
	}
	prefix = strtoul(slash + 1, &end, 10);
	if (*end || end == slash + 1 || prefix > most)
		return false;
	o->addresses[i].prefix = (unsigned)prefix;
	o->num_addresses++;
	return true;
}

static bool read_number(const char *word, int base, unsigned long most, unsigned long *value)
{
	char *end;

	*value = strtoul(word, &end, base);
	return *word && !*end && *value && *value <= most;
}

/* What follows from other options. */
static void complete(struct ipoib_options *o)
{
	if (o->name[0])
		return;
	if (o->pkey)
		snprintf(o->name, sizeof(o->name), "ib%u.%04x", (o->port - 1) & 0xff,
			 o->pkey | 0x8000u);
	else
		snprintf(o->name, sizeof(o->name), "ib%u", (o->port - 1) & 0xff);
}

/* False after a line on stderr. */
static bool read_options(int argc, char **argv, struct ipoib_options *o)
{
	static const struct option words[] = {{"device", required_argument, NULL, 'D'},
					      {"port", required_argument, NULL, 'p'},
					      {"pkey", required_argument, NULL, 'P'},
					      {"dev", required_argument, NULL, 'n'},
					      {"ready", required_argument, NULL, 'r'},
					      {"verbose", no_argument, NULL, 'v'},
					      {"help", no_argument, NULL, 'h'},
					      {"version", no_argument, NULL, 'V'},
					      {}};
	unsigned long number;
	int option;

	command_begin();
	o->port = 1;
	while ((option = getopt_long(argc, argv, "D:p:P:n:r:vhV", words, NULL)) >= 0) {
		switch (option) {
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': puts("urxe-ipoib " URXE_VERSION); exit(0);
		case 'v': log_level = LOG_DEBUG; continue;
		case 'D': o->device = optarg; continue;
		case 'r': ready_fd = atoi(optarg); continue;
		case 'n':
			if (!*optarg || strlen(optarg) >= IFNAMSIZ || strpbrk(optarg, "/ %"))
				break;
			strcpy(o->name, optarg);
			continue;
		case 'p':
			if (!read_number(optarg, 10, 254, &number))
				break;
			o->port = (unsigned)number;
			continue;
		case 'P':
			if (!read_number(optarg, 16, 0xffff, &number) || !(number & 0x7fff))
				break;
			o->pkey = (uint16_t)number;
			continue;
		}
		if (option == '?') {
			command_bad_option(argv);
			return false;
		}
		log_error("-%c cannot be \"%s\"", option, optarg);
		return false;
	}
	for (; optind < argc; optind++) {
		if (read_address(o, argv[optind]))
			continue;
		log_error("\"%s\" is not an address with its prefix, as 10.1.0.2/24 or fd00::2/64 "
			  "(16 of them at most)",
			  argv[optind]);
		return false;
	}
	complete(o);
	return true;
}

static int start(struct ipoib *ib, struct control **control)
{
	static char path[64];
	struct control_options options = {.path = path,
					  .user = "",
					  .group = "",
					  .commands = ipoib_commands,
					  .count = ipoib_num_commands,
					  .daemon = ib};
	int ret = loop_init(&ib->loop, NULL, ib);

	if (!ret)
		ret = tun_create(ib);
	if (!ret)
		ret = port_create(ib);
	if (!ret)
		ret = queue_create(ib);
	if (!ret)
		ret = neighbours_create(ib);
	if (!ret)
		ret = groups_create(ib);
	if (!ret)
		ret = sa_create(ib);
	if (!ret)
		ret = paths_create(ib);
	if (!ret)
		ret = kernel_create(ib);
	if (!ret)
		ret = kernel_set_up(ib);
	snprintf(path, sizeof(path), CONTROL_PREFIX "%s", ib->options.name);
	return ret ?: control_start(ib->loop.base, &options, control);
}

static void finish(struct ipoib *ib, struct control *control)
{
	control_stop(control);
	paths_destroy(ib);
	if (ib->neighbours)
		neighbours_destroy(ib);
	groups_destroy(ib);
	queue_destroy(ib);
	sa_destroy(ib);
	kernel_destroy(ib);
	port_destroy(ib);
	tun_destroy(ib);
	if (ib->loop.base)
		loop_destroy(&ib->loop);
}

static void ignore(void *arg)
{
}

int main(int argc, char **argv)
{
	static struct ipoib ib = {.tun = -1};
	struct control *control = NULL;
	int ret;

	log_init("urxe-ipoib");
	log_level = LOG_NOTICE;
	if (argc > 1 && !strcmp(argv[1], "-s"))
		return command_line(argc, argv);
	if (!read_options(argc, argv, &ib.options))
		return 2;
	startup_limits();
	ret = start(&ib, &control);
	if (!ret) {
		ib.loop.reload = ignore;
		ib.ready = ready_fd >= 0 ? tell_ready : NULL;
		port_restart(&ib);
		loop_run(&ib.loop, NULL, NULL);
	}
	finish(&ib, control);
	return ret || ib.deleted;
}
