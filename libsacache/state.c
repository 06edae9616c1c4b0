/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Saves the table to a file and loads it; state_file.c has the file's format.
 *
 * Saving delays no other thread: entries are copied in batches under cache->lock, and written
 * without it. A new file is written beside the old one and replaces it when it is on the disk, so
 * that there is a complete one at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/sized.h"
#include "libsacache/state.h"

#define BATCH	  4096
#define DAYS_KEPT 30 /* of a port that is not open */
#define NOT_KEPT  UINT8_MAX

/* The index of a port of the file among those ports, by its GUID; SACACHE_MAX_PORTS: none. */
static unsigned find_port(const struct sa_state_port *port, const struct sa_port_identity *here,
			  uint32_t ports)
{
	unsigned n = 0;

	while (n < SACACHE_MAX_PORTS &&
	       !(ports & 1u << n && !memcmp(port->identity.gid + 8, here[n].gid + 8, 8)))
		n++;
	return n;
}

/* By the prefix, which is valid once an SM has given the port a LID: before, it is the default
 * one. */
static bool same_subnet(const struct sa_port_identity *saved, const struct sa_port_identity *here)
{
	return !here->lid || !memcmp(saved->gid, here->gid, 8);
}

/* The port's LID or the SM has changed: the SM's answers of that time are queried again. */
static bool changed_since(const struct sa_port_identity *saved, const struct sa_port_identity *here)
{
	return (here->lid && here->lid != saved->lid) ||
	       (here->sm_lid && here->sm_lid != saved->sm_lid) ||
	       (here->sm_guid && saved->sm_guid && here->sm_guid != saved->sm_guid);
}

struct target {
	bool open, ask_again;
	uint8_t number;
	uint32_t generation;
};

/* The state of records that are added for an open port. If the SM turns out to be another later,
 * they become outdated, too. */
static void aim(struct sacache *cache, const struct sa_state_port *saved,
		const struct sa_port_identity *here, unsigned number, struct target *target)
{
	target->open = true;
	target->number = number;
	target->ask_again = changed_since(&saved->identity, here);
	target->generation = atomic_load(&cache->subnets[number].generation) - target->ask_again;
	if (saved->caching)
		atomic_store(&cache->subnets[number].caching, true);
	if (!target->ask_again && saved->identity.sm_guid)
		sa_port_expect_sm(cache, number, saved->identity.sm_guid);
}

/* Under cache->lock. */
static int restore(struct sacache *cache, const struct sa_state_entry *saved,
		   const struct target *target, struct sacache_state *report)
{
	struct sacache_key key = saved->key;
	int ret;

	key.port = target->number;
	ret = sa_cache_restore(cache, &key, saved->record, target->generation, saved->failures);
	if (ret < 0)
		return ret;
	report->records += ret;
	report->skipped += !ret;
	report->ask_again += ret && target->ask_again;
	return 0;
}

int sa_state_apply(struct sacache *cache, const struct sa_state *state,
		   const struct sa_port_identity *here, uint32_t ports,
		   struct sacache_state *report)
{
	struct target target[SACACHE_MAX_PORTS] = {0};
	bool any = false;
	int ret = 0;

	for (uint32_t i = 0; i < state->ports; i++) {
		const struct sa_state_port *saved = &state->port[i];
		unsigned n = find_port(saved, here, ports);

		if (n < SACACHE_MAX_PORTS && same_subnet(&saved->identity, &here[n]))
			aim(cache, saved, &here[n], n, &target[i]);
		/* A port that is not open now may be opened later. */
		any = any || target[i].open || n == SACACHE_MAX_PORTS;
	}
	if (!any)
		return -ENODEV;
	for (uint64_t i = 0; !ret && i < state->entries;) {
		pthread_mutex_lock(&cache->lock);
		for (unsigned n = 0; !ret && n < BATCH && i < state->entries; n++, i++) {
			struct sa_state_entry entry;

			/* Entries that were verified can all be decoded. */
			sa_state_decode(state, i, &entry);
			if (target[entry.key.port].open)
				ret = restore(cache, &entry, &target[entry.key.port], report);
			else
				report->skipped++;
		}
		pthread_mutex_unlock(&cache->lock);
	}
	return ret;
}

/* The open ports, by number. */
static uint32_t identify_ports(struct sacache *cache, struct sa_port_identity *here)
{
	uint32_t open_ports = 0;

	for (unsigned n = 0; n < SACACHE_MAX_PORTS; n++)
		if (!sa_port_identify(cache, n, &here[n]))
			open_ports |= 1u << n;
	return open_ports;
}

static int write_all(int fd, const uint8_t *data, size_t length, off_t at)
{
	while (length) {
		ssize_t done = pwrite(fd, data, length, at);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return done ? -errno : -ENOSPC;
		data += done;
		at += done;
		length -= done;
	}
	return 0;
}

struct save {
	struct sacache *cache;
	int fd;
	off_t end;
	uint32_t crc;
	uint32_t ports;
	uint64_t entries;
	uint64_t kept;			  /* of these, kept from the old file */
	uint8_t index[SACACHE_MAX_PORTS]; /* index in the file, by the port's number */
	uint32_t wanted;		  /* ports whose records come from the table */
	uint32_t at;			  /* place in the table */
	uint16_t day;
	struct sa_state before; /* the old file; without entries: nothing of it is kept */
	uint8_t before_index[SACACHE_MAX_PORTS]; /* index in the new file, or NOT_KEPT */
	uint8_t batch[BATCH * SA_STATE_ENTRY];
};

static int append(struct save *save, const uint8_t *data, size_t length)
{
	int ret = write_all(save->fd, data, length, save->end);

	save->crc = sa_state_checksum(save->crc, data, length);
	save->end += length;
	return ret;
}

static int append_port(struct save *save, const struct sa_state_port *port, uint8_t *index)
{
	uint8_t out[SA_STATE_PORT];

	*index = save->ports++;
	sa_state_encode_port(port, out);
	return append(save, out, sizeof(out));
}

/* Whether a port of the old file is not among those that are saved now, and was open recently. */
static bool to_be_kept(const struct save *save, const struct sa_state_port *port,
		       const struct sa_port_identity *here)
{
	return find_port(port, here, save->wanted) == SACACHE_MAX_PORTS &&
	       save->day - port->day <= DAYS_KEPT;
}

static int save_ports(struct save *save, const struct sa_port_identity *here)
{
	int ret = 0;

	for (unsigned n = 0; !ret && n < SACACHE_MAX_PORTS; n++) {
		/* The SM's choice, not the policy, which may be another one at the next load. */
		struct sa_state_port port = {
			.identity = here[n],
			.day = save->day,
			.caching = atomic_load(&save->cache->subnets[n].caching),
		};

		if (save->wanted & 1u << n)
			ret = append_port(save, &port, &save->index[n]);
	}
	memset(save->before_index, NOT_KEPT, sizeof(save->before_index));
	for (uint32_t i = 0; !ret && i < save->before.ports; i++) {
		struct sa_state_port port = save->before.port[i];

		if (save->ports == SACACHE_MAX_PORTS || !to_be_kept(save, &port, here))
			continue;
		/* By a clock that was wrong then. */
		if (port.day > save->day)
			port.day = save->day;
		ret = append_port(save, &port, &save->before_index[i]);
	}
	return ret;
}

static bool worth_saving(const struct save *save, const struct sa_entry *entry)
{
	uint32_t state = atomic_load(&entry->state);

	return entry->kind == SA_ENTRY_PATH && save->wanted & 1u << entry->port &&
	       !(state & (SACACHE_ASK_AGAIN | SA_INTERNAL_CHANGED)) &&
	       atomic_load(&entry->generation) ==
		       atomic_load(&save->cache->subnets[entry->port].generation);
}

/* Copies the next part of the table into the batch; returns how many. */
static unsigned copy_batch(struct save *save)
{
	struct sacache *cache = save->cache;
	struct sa_entry *entry = NULL;
	unsigned count = 0;

	pthread_mutex_lock(&cache->lock);
	while (count < BATCH && (entry = sa_table_next(&cache->table, &save->at))) {
		uint8_t record[SA_RECORD_SIZE];
		struct sacache_key key;

		if (!worth_saving(save, entry))
			continue;
		sa_entry_key(&cache->table, entry, &key);
		sa_entry_record(&cache->table, entry, record);
		sa_state_encode_entry(&key, record, atomic_load(&entry->state) >> 8,
				      save->index[entry->port],
				      save->batch + count++ * SA_STATE_ENTRY);
	}
	pthread_mutex_unlock(&cache->lock);
	return count;
}

/* Copies the entries of ports that are not open, at most as many as the table could have. */
static int append_kept(struct save *save)
{
	uint64_t most = SA_STATE_MOST_ENTRIES - save->entries, i = 0;
	unsigned count;
	int ret = 0;

	if (most > save->cache->attr.max_entries)
		most = save->cache->attr.max_entries;
	do {
		for (count = 0; count < BATCH && save->kept < most && i < save->before.entries;
		     i++) {
			const uint8_t *in = sa_state_entry(&save->before, i);
			uint8_t *out = save->batch + count * SA_STATE_ENTRY;

			if (save->before_index[in[82]] == NOT_KEPT)
				continue;
			memcpy(out, in, SA_STATE_ENTRY);
			out[82] = save->before_index[in[82]];
			save->kept++;
			count++;
		}
		ret = append(save, save->batch, count * SA_STATE_ENTRY);
	} while (!ret && count == BATCH);
	save->entries += save->kept;
	return ret;
}

static int save_header(struct save *save, int64_t when)
{
	uint8_t out[SA_STATE_HEADER];

	sa_state_encode_header(save->ports, save->entries, when, save->crc, out);
	return write_all(save->fd, out, sizeof(out), 0);
}

static int save_all(struct save *save, const struct sa_port_identity *here, int64_t when)
{
	unsigned count;
	int ret;

	save->end = SA_STATE_HEADER;
	ret = save_ports(save, here);
	while (!ret && (count = copy_batch(save))) {
		save->entries += count;
		if (save->entries > SA_STATE_MOST_ENTRIES)
			return -EFBIG;
		ret = append(save, save->batch, count * SA_STATE_ENTRY);
	}
	if (!ret)
		ret = append_kept(save);
	if (!ret)
		ret = save_header(save, when);
	if (!ret && fsync(save->fd))
		ret = -errno;
	return ret;
}

/* The new file, mode 0600; one that a killed process has left is reused. */
static int open_beside(const char *beside)
{
	int fd = open(beside, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	struct stat mine, there;
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB))
		ret = errno == EWOULDBLOCK ? -EBUSY : -errno;
	else if (fstat(fd, &mine) || !S_ISREG(mine.st_mode))
		ret = -EINVAL;
	else if (stat(beside, &there) || mine.st_ino != there.st_ino)
		ret = -EBUSY; /* another process has just renamed it */
	else if (ftruncate(fd, 0))
		ret = -errno;
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

/* A rename is on the disk when its folder is. */
static int sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char folder[PATH_MAX];
	int fd, ret;

	snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - path) + 1 : 1,
		 slash ? path : ".");
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Not every filesystem implements it. */
	ret = fsync(fd) && errno != EINVAL ? -errno : 0;
	close(fd);
	return ret;
}

static int read_all(int fd, uint8_t *data, size_t length)
{
	for (size_t at = 0; at < length;) {
		ssize_t got = pread(fd, data + at, length - at, at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) /* no process writes to it: missing bytes were lost by the disk */
			return got ? -errno : -EIO;
		at += got;
	}
	return 0;
}

/* Reads the whole file, unless it is too long for one of ours. */
static int read_file(const char *path, uint8_t **data, size_t *length, const char **problem)
{
	const uint64_t most = SA_STATE_HEADER + SACACHE_MAX_PORTS * SA_STATE_PORT +
			      (uint64_t)SA_STATE_MOST_ENTRIES * SA_STATE_ENTRY;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), ret = 0;
	struct stat stat;

	*data = NULL;
	*problem = NULL;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &stat)) {
		ret = -errno;
	} else if (!S_ISREG(stat.st_mode)) {
		ret = -EINVAL;
	} else if ((uint64_t)stat.st_size > most) {
		*problem = "it is too long";
	} else {
		*length = stat.st_size;
		*data = malloc(*length + 1);
		ret = *data ? read_all(fd, *data, *length) : -ENOMEM;
	}
	close(fd);
	if (ret) {
		free(*data);
		*data = NULL;
	}
	return ret;
}

/*
 * Reads the file that will be replaced if it has entries to keep, which its list of ports shows.
 * A damaged one is not kept.
 */
static int read_before(struct save *save, const char *path, const struct sa_port_identity *here)
{
	uint8_t begin[SA_STATE_HEADER + SACACHE_MAX_PORTS * SA_STATE_PORT], *data;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), ret;
	ssize_t got = fd < 0 ? 0 : pread(fd, begin, sizeof(begin), 0), at = SA_STATE_HEADER;
	uint32_t ports = got < at ? 0 : sa_get32(begin + 12);
	const char *problem;
	bool any = false;
	size_t length = 0;

	if (fd >= 0)
		close(fd);
	for (; ports && at + SA_STATE_PORT <= got && !any; ports--, at += SA_STATE_PORT) {
		struct sa_state_port port;

		sa_state_decode_port(begin + at, (int64_t)sa_get64(begin + 24), &port);
		any = to_be_kept(save, &port, here);
	}
	ret = any ? read_file(path, &data, &length, &problem) : -ENOENT;
	if (ret)
		return ret == -ENOMEM ? ret : 0;
	if (problem || sa_state_parse(&save->before, data, length)) {
		memset(&save->before, 0, sizeof(save->before));
		free(data);
	}
	return 0;
}

static int save_beside(struct save *save, const char *path, const char *beside,
		       const struct sa_port_identity *here, int64_t when)
{
	int ret = read_before(save, path, here);

	if (!ret)
		ret = save_all(save, here, when);
	if (!ret && rename(beside, path))
		ret = -errno;
	if (ret)
		unlink(beside);
	else
		ret = sync_folder(path);
	free((uint8_t *)save->before.data);
	return ret;
}

int sacache_save_ports(struct sacache *cache, uint32_t ports, const char *path,
		       struct sacache_state *report, size_t size)
{
	struct sa_port_identity here[SACACHE_MAX_PORTS];
	uint32_t wanted = identify_ports(cache, here) & ports;
	struct sacache_state result;
	char beside[PATH_MAX];
	struct save *save;
	int64_t when = time(NULL);
	int ret;

	if ((size_t)snprintf(beside, sizeof(beside), "%s.new", path) >= sizeof(beside))
		return -ENAMETOOLONG;
	if (!wanted)
		return -ENODEV;
	save = calloc(1, sizeof(*save));
	if (!save)
		return -ENOMEM;
	save->cache = cache;
	save->wanted = wanted;
	save->day = sa_state_day(when);
	save->fd = ret = open_beside(beside);
	if (ret >= 0) {
		ret = save_beside(save, path, beside, here, when);
		close(save->fd);
	}
	result = (struct sacache_state){
		.records = save->entries - save->kept, .skipped = save->kept, .when = when};
	if (!ret)
		copy_out(report, size, &result, sizeof(result));
	free(save);
	return ret;
}

int sacache_save(struct sacache *cache, const char *path, struct sacache_state *report, size_t size)
{
	return sacache_save_ports(cache, UINT32_MAX, path, report, size);
}

/* A damaged file replaces an earlier one, so that they do not fill the disk. */
static void put_aside(const char *path, const char *problem, struct sacache_state *report)
{
	snprintf(report->problem, sizeof(report->problem), "%s", problem);
	if ((size_t)snprintf(report->aside, sizeof(report->aside), "%s.bad", path) >=
		    sizeof(report->aside) ||
	    rename(path, report->aside))
		report->aside[0] = 0;
	else
		sync_folder(path);
}

static int load_file(struct sacache *cache, uint32_t ports, const char *path,
		     struct sacache_state *report)
{
	struct sa_port_identity here[SACACHE_MAX_PORTS];
	uint32_t wanted = identify_ports(cache, here) & ports;
	struct sa_state state;
	const char *problem;
	uint8_t *data;
	size_t length = 0;
	int ret;

	if (!wanted)
		return -ENODEV;
	ret = read_file(path, &data, &length, &problem);
	if (ret)
		return ret;
	if (!problem)
		problem = sa_state_parse(&state, data, length);
	if (!problem) {
		report->when = state.when;
		ret = sa_state_apply(cache, &state, here, wanted, report);
		if (ret == -ENODEV)
			problem = "it is of another subnet";
	}
	if (problem) {
		put_aside(path, problem, report);
		ret = -EBADMSG;
	}
	free(data);
	return ret;
}

int sacache_load_ports(struct sacache *cache, uint32_t ports, const char *path,
		       struct sacache_state *report, size_t size)
{
	struct sacache_state result = {0};
	int ret = load_file(cache, ports, path, &result);

	copy_out(report, size, &result, sizeof(result));
	return ret;
}

int sacache_load(struct sacache *cache, const char *path, struct sacache_state *report, size_t size)
{
	return sacache_load_ports(cache, UINT32_MAX, path, report, size);
}
