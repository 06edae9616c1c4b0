// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The journal as a file and as a table. One thread at a time. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <isa-l/crc.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "migrate/journal.h"

#define LINE_LEN (RECORD_LINE_LEN + 16)
#define MAX_SIZE (64 << 20)
#define KEEP_LINES \
	1024 /* before the file is written anew, and four times as many as there are records */

#define MOVE_LINES 16 /* of a move that fails late and comes back */

/* ---- the table ---- */

struct record *journal_find(struct journal *journal, uint64_t guid)
{
	for (size_t i = 0; i < journal->count; i++)
		if (journal->records[i].guid == guid)
			return &journal->records[i];
	return NULL;
}

static int make_room(struct journal *journal)
{
	size_t room = journal->room ? 2 * journal->room : 16;
	struct record *records;

	if (journal->count < journal->room)
		return 0;
	records = realloc(journal->records, room * sizeof(*records));
	if (!records)
		return -ENOMEM;
	journal->records = records;
	journal->room = room;
	return 0;
}

/* There is room. */
static void keep(struct journal *journal, const struct record *record)
{
	struct record *old = journal_find(journal, record->guid);

	if (record->state == MOVE_GONE) {
		if (old)
			*old = journal->records[--journal->count];
	} else if (old) {
		*old = *record;
	} else {
		journal->records[journal->count++] = *record;
	}
}

/* ---- lines ---- */

static size_t format_line(const struct record *record, char *line)
{
	size_t len = record_format(record, line + 9);

	sprintf(line, "%08x", ~crc32_iscsi((unsigned char *)line + 9, len, ~0u));
	line[8] = ' ';
	line[9 + len] = '\n';
	return len + 10;
}

/* -EBADMSG: it is damaged; -EPROTO: it is whole, and not one of this version's. */
static int parse_line(const char *line, size_t len, struct record *record)
{
	char crc[9];

	if (len < 10 || line[8] != ' ')
		return -EBADMSG;
	snprintf(crc, sizeof(crc), "%08x",
		 ~crc32_iscsi((unsigned char *)line + 9, (int)len - 9, ~0u));
	if (memcmp(crc, line, 8) != 0)
		return -EBADMSG;
	return record_parse(record, line + 9, len - 9) || !record->guid ? -EPROTO : 0;
}

long journal_replay(struct journal *journal, const char *text, size_t len, unsigned *bad_line)
{
	const char *at = text, *end = text + len, *eol;
	struct record record;

	*bad_line = 0;
	for (unsigned number = 1; (eol = memchr(at, '\n', end - at)); number++, at = eol + 1) {
		bool last = eol + 1 == end;
		int ret = parse_line(at, eol - at, &record);

		if (ret == -EBADMSG && last)
			break; /* blocks of the last write came in another order */
		if (ret) {
			*bad_line = number;
			return ret;
		}
		if (make_room(journal))
			return -ENOMEM;
		keep(journal, &record);
		journal->lines++;
	}
	return at - text;
}

/* ---- the file ---- */

static int write_all(int fd, const char *bytes, size_t len, long at)
{
	while (len) {
		ssize_t n = pwrite(fd, bytes, len, at);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			bytes += n;
			len -= n;
			at += n;
		}
	}
	return fdatasync(fd) ? -errno : 0;
}

static int sync_folder(const char *path)
{
	char copy[PATH_MAX];
	int fd, ret;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = fsync(fd) ? -errno : 0;
	close(fd);
	return ret;
}

/* Bytes of a line that was cut off begin as a line does; blocks that were not written are zeros. */
static bool begins_a_line(const char *text, size_t len)
{
	for (size_t i = 0; i < len && i < 9; i++)
		if (text[i] && !(i < 8 ? isxdigit((unsigned char)text[i]) : text[i] == ' '))
			return false;
	return true;
}

/* What is not whole at the end is cut off, unless it is of another file
 * that was named by mistake. */
static int read_file(struct journal *journal, unsigned *line)
{
	struct stat st;
	char *text;
	ssize_t got;
	long whole;

	if (fstat(journal->fd, &st))
		return -errno;
	if (st.st_size > MAX_SIZE)
		return -EFBIG;
	text = malloc(st.st_size + 1);
	if (!text)
		return -ENOMEM;
	got = pread(journal->fd, text, st.st_size, 0);
	whole = got == st.st_size ? journal_replay(journal, text, got, line) : -EIO;
	if (whole >= 0 && !begins_a_line(text + whole, got - whole)) {
		*line = journal->lines + 1;
		whole = -EBADMSG;
	}
	free(text);
	if (whole < 0)
		return (int)whole;
	journal->end = whole;
	if (whole < st.st_size && ftruncate(journal->fd, whole))
		return -errno;
	return 0;
}

static int open_file(struct journal *journal, const char *path)
{
	struct stat st;

	journal->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (journal->fd < 0)
		return -errno;
	if (flock(journal->fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(journal->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!st.st_nlink) /* its owner has just written it anew */
		return -EAGAIN;
	return sync_folder(path);
}

int journal_open(struct journal *journal, const char *path, unsigned *line)
{
	int ret;

	memset(journal, 0, sizeof(*journal));
	*line = 0;
	journal->path = strdup(path);
	journal->fd = -1;
	ret = journal->path ? open_file(journal, path) : -ENOMEM;
	if (!ret)
		ret = read_file(journal, line);
	if (ret)
		journal_close(journal);
	return ret;
}

void journal_close(struct journal *journal)
{
	if (journal->fd >= 0)
		close(journal->fd);
	free(journal->path);
	free(journal->records);
	memset(journal, 0, sizeof(*journal));
	journal->fd = -1;
}

static int reserve(int fd, long end, long bytes)
{
	if (!bytes || !fallocate(fd, FALLOC_FL_KEEP_SIZE, end, bytes) || errno == EOPNOTSUPP ||
	    errno == ENOSYS)
		return 0;
	return -errno;
}

int journal_reserve(struct journal *journal, unsigned moves)
{
	long bytes = (long)moves * MOVE_LINES * LINE_LEN;
	int ret = reserve(journal->fd, journal->end, bytes);

	if (!ret)
		journal->reserved = bytes;
	return ret;
}

/* All records into a file of their own. */
static int write_anew(struct journal *journal, int fd, long *end)
{
	char line[LINE_LEN];
	int ret = 0;

	*end = 0;
	for (size_t i = 0; i < journal->count && !ret; i++) {
		size_t len = format_line(&journal->records[i], line);

		ret = pwrite(fd, line, len, *end) == (ssize_t)len ? 0 : -EIO;
		*end += (long)len;
	}
	if (!ret && fsync(fd))
		ret = -errno;
	return ret;
}

/* Without success the old file goes on. */
static void shorten(struct journal *journal)
{
	char beside[PATH_MAX];
	long end;
	int fd;

	if (journal->lines < KEEP_LINES || journal->lines < 4 * journal->count)
		return;
	if ((size_t)snprintf(beside, sizeof(beside), "%s.new", journal->path) >= sizeof(beside))
		return;
	fd = open(beside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) || write_anew(journal, fd, &end) ||
	    reserve(fd, end, journal->reserved) || rename(beside, journal->path)) {
		unlink(beside);
		close(fd);
		return;
	}
	sync_folder(journal->path);
	close(journal->fd);
	journal->fd = fd;
	journal->end = end;
	journal->lines = journal->count;
}

int journal_put(struct journal *journal, const struct record *record)
{
	char line[LINE_LEN];
	size_t len;
	int ret = make_room(journal);

	if (ret)
		return ret;
	len = format_line(record, line);
	ret = write_all(journal->fd, line, len, journal->end);
	if (ret) {
		/* Whoever reads it now must not find half of it. */
		if (ftruncate(journal->fd, journal->end))
			ret = -EIO;
		reserve(journal->fd, journal->end, journal->reserved); /* it was cut off, too */
		return ret;
	}
	journal->end += (long)len;
	journal->lines++;
	keep(journal, record);
	shorten(journal);
	return 0;
}
