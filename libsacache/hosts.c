/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * IP addresses to GIDs from a hosts file in ibacm's format: an address and a GID, both as text, in
 * each line. The table is an array in the order of addresses; cache->hosts_lock guards which one is
 * used.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/whole_file.h"
#include "libsacache/cache.h"
#include "libsacache/hosts.h"

#define MAX_FILE (256u << 20)

void sa_hosts_free(struct sa_hosts *hosts)
{
	free(hosts);
}

static int compare(const void *a, const void *b)
{
	return memcmp(&((const struct sa_host *)a)->addr, &((const struct sa_host *)b)->addr, 16);
}

const struct sa_host *sa_hosts_find(const struct sa_hosts *hosts, const struct in6_addr *addr)
{
	struct sa_host wanted = {.addr = *addr};

	return bsearch(&wanted, hosts->host, hosts->count, sizeof(wanted), compare);
}

/* The next word of a line, into word; NULL: none, or too long for an address. */
static const char *next_word(const char *p, char word[INET6_ADDRSTRLEN])
{
	size_t length;

	p += strspn(p, " \t\r");
	length = strcspn(p, " \t\r\n#");
	if (!length || length >= INET6_ADDRSTRLEN)
		return NULL;
	memcpy(word, p, length);
	word[length] = 0;
	return p + length;
}

static bool parse_address(const char *word, struct in6_addr *addr)
{
	struct in_addr v4;

	if (inet_pton(AF_INET, word, &v4) != 1)
		return inet_pton(AF_INET6, word, addr) == 1;
	memset(addr, 0, 10);
	memset(&addr->s6_addr[10], 0xff, 2);
	memcpy(&addr->s6_addr[12], &v4, 4);
	return true;
}

/* 1: *host is filled in; 0: the line is empty; -EINVAL. */
static int parse_line(const char *p, struct sa_host *host)
{
	char word[INET6_ADDRSTRLEN];

	p += strspn(p, " \t\r");
	if (!*p || *p == '\n' || *p == '#')
		return 0;
	p = next_word(p, word);
	if (!p || !parse_address(word, &host->addr))
		return -EINVAL;
	p = next_word(p, word);
	if (!p || inet_pton(AF_INET6, word, host->gid) != 1)
		return -EINVAL;
	p += strspn(p, " \t\r");
	return !*p || *p == '\n' || *p == '#' ? 1 : -EINVAL;
}

int sa_hosts_parse(const char *text, struct sa_hosts **out, unsigned *line)
{
	struct sa_hosts *hosts;
	size_t lines = 1;
	unsigned at = 1;

	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	hosts = calloc(1, sizeof(*hosts) + lines * sizeof(hosts->host[0]));
	if (!hosts)
		return -ENOMEM;
	for (const char *p = text; p; at++) {
		int ret = parse_line(p, &hosts->host[hosts->count]);

		if (ret < 0) {
			if (line)
				*line = at;
			free(hosts);
			return ret;
		}
		hosts->count += ret;
		p = strchr(p, '\n');
		if (p)
			p++;
	}
	qsort(hosts->host, hosts->count, sizeof(hosts->host[0]), compare);
	*out = hosts;
	return 0;
}

static int read_file(const char *path, char **text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	*text = NULL;
	if (fd < 0)
		return -errno;
	ret = whole_file(fd, MAX_FILE, text, NULL);
	close(fd);
	return ret;
}

int sacache_hosts_load(struct sacache *cache, const char *path, unsigned *line)
{
	struct sa_hosts *hosts, *old;
	char *text;
	int ret = read_file(path, &text);

	if (ret)
		return ret;
	ret = sa_hosts_parse(text, &hosts, line);
	free(text);
	if (ret)
		return ret;
	pthread_mutex_lock(&cache->hosts_lock);
	old = cache->hosts;
	cache->hosts = hosts;
	pthread_mutex_unlock(&cache->hosts_lock);
	sa_hosts_free(old);
	return 0;
}
