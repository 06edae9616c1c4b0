/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Paths from OpenSM's dump; import.h shows its format. The file is read as a whole before the
 * records are added, which takes cache->lock. It may be long: it has a line for each pair of ports
 * of the subnet, of which only those from one port are used.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sized.h"
#include "libsacache/import.h"
#include "libsacache/state.h"

#define MAX_LINE 512

/* OpenSM's subnet_timeout, the packet lifetime in its SA's answers: some 1.07 s. */
#define LIFETIME 18

static const char *skip(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

/* An unsigned number up to a maximum; NULL. */
static const char *number(const char *p, int base, uint64_t most, uint64_t *out)
{
	char *end;

	p = skip(p);
	if (*p < '0' || *p > '9')
		return NULL;
	errno = 0;
	*out = strtoull(p, &end, base);
	return errno || *out > most ? NULL : end;
}

static const char *colon(const char *p)
{
	if (!p)
		return NULL;
	p = skip(p);
	return *p == ':' ? p + 1 : NULL;
}

static const char *const kinds[] = {"Channel Adapter ", "Switch ", "Router "};

/* The text behind a port's type at the start of a line. */
static const char *section(const char *p)
{
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(p, kinds[i], strlen(kinds[i])))
			return p + strlen(kinds[i]);
	return NULL;
}

struct reader {
	struct sa_dump *dump;
	uint64_t guid;
	bool any_section, ours;
};

static const char *parse_section(struct reader *reader, const char *p)
{
	static const char base_lid[] = ", base LID ";
	struct sa_dump *dump = reader->dump;
	uint64_t guid, lid;

	p = number(p, 16, UINT64_MAX, &guid);
	if (!p || !guid || strncmp(p, base_lid, sizeof(base_lid) - 1) != 0)
		return "a port has a GUID and a base LID";
	p = number(p + sizeof(base_lid) - 1, 10, SA_UNICAST_LIDS - 1, &lid);
	if (!p || *p != ',')
		return "a port has a GUID and a base LID";
	/* A port that the SM has not assigned a LID yet. */
	reader->any_section = true;
	reader->ours = lid && guid == reader->guid;
	if (!lid)
		return NULL;
	if (dump->guid_of[lid] && dump->guid_of[lid] != guid)
		return "two ports have this LID";
	if (reader->ours && dump->lid)
		return "this port was there already";
	dump->guid_of[lid] = guid;
	if (reader->ours)
		dump->lid = lid;
	return NULL;
}

static const char *parse_path(struct reader *reader, const char *p)
{
	static const char unreachable[] = "UNREACHABLE";
	uint64_t lid, sl = 0, mtu = 0, rate = 0;
	struct sa_dump *dump = reader->dump;

	if (!reader->any_section && *p == '0')
		return "a path without a port that it begins at";
	p = colon(number(p, 16, SA_UNICAST_LIDS - 1, &lid));
	if (!p || !lid || !reader->ours)
		return "neither a port nor a path";
	if (!strncmp(skip(p), unreachable, sizeof(unreachable) - 1)) {
		p = skip(p) + sizeof(unreachable) - 1;
		dump->unreachable++;
		return *skip(p) ? "neither a port nor a path" : NULL;
	}
	p = colon(number(p, 10, 15, &sl));
	p = p ? colon(number(p, 10, 63, &mtu)) : NULL;
	p = p ? number(p, 10, 63, &rate) : NULL;
	if (!p || *skip(p) || !mtu || !rate)
		return "a path has a LID, SL, MTU and rate";
	if (dump->paths == SA_UNICAST_LIDS)
		return "more paths than there are LIDs";
	dump->path[dump->paths++] = (struct sa_dump_path){lid, sl, mtu, rate};
	return NULL;
}

int sa_dump_parse(FILE *file, uint64_t guid, struct sa_dump **out, unsigned *line,
		  const char **problem)
{
	struct reader reader = {.dump = calloc(1, sizeof(*reader.dump)), .guid = guid};
	char buf[MAX_LINE];

	if (!reader.dump)
		return -ENOMEM;
	*problem = NULL;
	for (*line = 1; !*problem && fgets(buf, sizeof(buf), file); (*line)++) {
		const char *p = skip(buf), *behind;

		/* A last line without a newline is still being written. */
		if (!strchr(buf, '\n'))
			*problem = "it is cut off, or this line is too long";
		else if (*p >= '0' && *p <= '9' && reader.any_section && !reader.ours)
			continue; /* most of the file: from another port */
		else if ((behind = section(p)))
			*problem = parse_section(&reader, behind);
		else if (*p && *p != '#')
			*problem = parse_path(&reader, p);
		if (*problem)
			break;
	}
	if (!*problem && !ferror(file)) {
		*out = reader.dump;
		return 0;
	}
	free(reader.dump);
	return *problem ? -EINVAL : -EIO;
}

static int open_dump(const char *path, FILE **file)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), ret = 0;
	struct stat stat;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat))
		ret = -errno;
	else if (!S_ISREG(stat.st_mode))
		ret = -EINVAL;
	if (!ret && !(*file = fdopen(fd, "r")))
		ret = -ENOMEM;
	if (ret)
		close(fd);
	return ret;
}

static void make_path(const struct sa_port_identity *here, const struct sa_dump *dump,
		      const struct sa_dump_path *from, struct sacache_path *path)
{
	*path = (struct sacache_path){
		.dlid = from->dlid,
		.slid = dump->lid,
		.pkey = here->pkey,
		.sl = from->sl,
		.mtu = from->mtu,
		.rate = from->rate,
		.lifetime = from->dlid == dump->lid ? 0 : LIFETIME,
		.reversible = true,
		.numb_path = 1,
	};
	memcpy(path->sgid, here->gid, 16);
	memcpy(path->dgid, here->gid, 8);
	sa_put64(path->dgid + 8, dump->guid_of[from->dlid]);
}

static int store_all(struct sacache *cache, const struct sa_port_identity *here,
		     const struct sa_dump *dump, unsigned port, const uint32_t *masks,
		     unsigned nmasks, struct sacache_import *report)
{
	report->unreachable = dump->unreachable;
	if (!dump->lid)
		return -ENXIO;
	if (dump->lid != here->lid)
		return -ESTALE;
	for (uint32_t i = 0; i < dump->paths; i++) {
		struct sacache_path path;
		int ret;

		if (!dump->guid_of[dump->path[i].dlid]) {
			report->unknown++;
			continue;
		}
		make_path(here, dump, &dump->path[i], &path);
		ret = sa_cache_restore_path(cache, &path, port, masks, nmasks,
					    atomic_load(&cache->subnets[port].generation));
		if (ret < 0)
			return ret;
		report->records += ret;
		report->skipped += nmasks - ret;
	}
	return 0;
}

static int import_file(struct sacache *cache, unsigned port, const char *path,
		       const uint32_t *masks, unsigned nmasks, struct sacache_import *report)
{
	struct sa_port_identity here;
	const char *problem = NULL;
	struct sa_dump *dump;
	FILE *file = NULL;
	int ret = sa_port_identify(cache, port, &here);

	if (ret)
		return ret;
	if (!here.lid)
		return -ENETDOWN;
	ret = open_dump(path, &file);
	if (ret)
		return ret;
	ret = sa_dump_parse(file, sa_get64(here.gid + 8), &dump, &report->line, &problem);
	fclose(file);
	if (problem)
		snprintf(report->problem, sizeof(report->problem), "%s", problem);
	if (ret)
		return ret;
	report->line = 0;
	ret = store_all(cache, &here, dump, port, masks, nmasks, report);
	free(dump);
	return ret;
}

int sacache_import(struct sacache *cache, unsigned port, const char *path, const uint32_t *masks,
		   unsigned nmasks, struct sacache_import *report, size_t size)
{
	struct sacache_import result = {0};
	int ret = import_file(cache, port, path, masks, nmasks, &result);

	copy_out(report, size, &result, sizeof(result));
	return ret;
}
