// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * guid2lid as a file that OpenSM may write at any moment, by renaming a file of its own over it. An
 * update puts a file PATH.lidtrack beside it and exchanges the two names. What lies under
 * PATH.lidtrack then is exactly what was replaced: if that is not the version that was read, its
 * entries are brought in by another round. An update that was killed between leaves its file there,
 * perhaps as the only one with OpenSM's newest entries; the next one brings in what it has.
 *
 *	PATH.lidtrack.new	written, and of no value before it is whole
 *	PATH.lidtrack		by renaming: has all that the one before it had
 *
 * So an update may be killed at any moment, and the next one as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sized.h"
#include "migrate/guid2lid.h"

#define MAX_SIZE   (8 << 20) /* 49,151 entries have 1.7 MB */
#define MAX_ROUNDS 100

struct text {
	char *bytes;
	size_t len;
	mode_t mode;
	uid_t uid;
	gid_t gid;
	bool there;
};

static int read_all(int fd, struct text *text)
{
	struct stat st;
	size_t got = 0;
	ssize_t n = 1;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	if (st.st_size > MAX_SIZE)
		return -EFBIG;
	text->mode = st.st_mode & 07777;
	text->uid = st.st_uid;
	text->gid = st.st_gid;
	text->bytes = malloc(st.st_size + 1);
	if (!text->bytes)
		return -ENOMEM;
	while (n > 0 && got < (size_t)st.st_size) {
		n = read(fd, text->bytes + got, st.st_size - got);
		if (n > 0)
			got += n;
		else if (n < 0 && errno != EINTR)
			return -errno;
		else if (n < 0)
			n = 1;
	}
	text->len = got;
	text->there = true;
	return 0;
}

static int read_text(const char *path, struct text *text)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY), ret;

	memset(text, 0, sizeof(*text));
	text->mode = 0644;
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	ret = read_all(fd, text);
	close(fd);
	if (ret)
		free(text->bytes);
	return ret;
}

int guid2lid_read(struct guid2lid *table, const char *path)
{
	struct text text;
	int ret = read_text(path, &text);

	if (ret)
		return ret;
	ret = guid2lid_parse(table, text.bytes ? text.bytes : "", text.len);
	free(text.bytes);
	return ret;
}

/* ---- writing ---- */

static int write_all(int fd, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = write(fd, bytes, len);

		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			bytes += n;
			len -= n;
		}
	}
	return fsync(fd) ? -errno : 0;
}

/* A new file with the mode and, as far as rights go, the owner of the old one. */
static int write_file(const char *path, const char *bytes, size_t len, const struct text *like)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600), ret;

	if (fd < 0)
		return -errno;
	ret = write_all(fd, bytes, len);
	if (like->there && fchown(fd, like->uid, like->gid) && errno != EPERM && !ret)
		ret = -errno;
	if (!ret && fchmod(fd, like->mode))
		ret = -errno;
	if (close(fd) && !ret)
		ret = -errno;
	if (ret)
		unlink(path);
	return ret;
}

static void sync_folder(const char *path)
{
	char copy[PATH_MAX];
	int fd;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return;
	fsync(fd);
	close(fd);
}

/* After it, beside is what path was; it is not there if path was not. */
static int exchange(const char *path, const char *beside, bool there)
{
	int ret;

	if (there)
		ret = renameat2(AT_FDCWD, beside, AT_FDCWD, path, RENAME_EXCHANGE);
	else
		ret = renameat2(AT_FDCWD, beside, AT_FDCWD, path, RENAME_NOREPLACE);
	if (!ret)
		return 0;
	/* It came or went since it was read: once more. */
	return errno == ENOENT || errno == EEXIST ? -EAGAIN : -errno;
}

/* ---- an update ---- */

struct update {
	const char *path;
	char beside[PATH_MAX];
	const struct guid2lid_entry *entries;
	size_t count;
	struct guid2lid table;	 /* the file that is to be */
	struct guid2lid missing; /* of files that were replaced unread */
	struct text written;	 /* by the round before, over one that it had not read, */
	struct text replaced;	 /* and that one: what the next round is to change */
	struct guid2lid_change change;
	struct guid2lid_entry *other;
	bool follows; /* entries of other GUIDs give way */
};

/* What only one of two has; the file's own entry wins, also where
 * another GUID has its LID since. */
static int bring_in(struct guid2lid *table, const struct guid2lid *from)
{
	int ret = 0;

	for (size_t i = 0; i < from->count && !ret; i++) {
		const struct guid2lid_entry *e = &from->entries[i];

		if (!guid2lid_find(table, e->guid) && !guid2lid_overlap(table, e))
			ret = guid2lid_set(table, e);
	}
	return ret;
}

static int set_entries(struct update *u)
{
	int ret = 0;

	u->change.dropped = 0;
	for (size_t i = 0; i < u->count && !ret; i++)
		ret = guid2lid_set(&u->table, &u->entries[i]);
	for (size_t i = 0; i < u->count && !ret && u->follows; i++)
		u->change.dropped += guid2lid_drop_overlaps(&u->table, &u->entries[i]);
	for (size_t i = 0; i < u->count && !ret; i++) {
		const struct guid2lid_entry *e = guid2lid_overlap(&u->table, &u->entries[i]);

		if (!e)
			continue;
		if (u->other)
			*u->other = *e;
		return -EADDRINUSE;
	}
	return ret;
}

static int keep_damaged(struct update *u, const struct text *text)
{
	char path[PATH_MAX];

	if (!u->table.damaged)
		return 0;
	u->change.damaged += u->table.damaged;
	if ((size_t)snprintf(path, sizeof(path), "%s.damaged", u->path) >= sizeof(path))
		return -ENAMETOOLONG;
	return write_file(path, text->bytes, text->len, text);
}

static bool same_text(const struct text *a, const struct text *b)
{
	return a->there && b->there && a->len == b->len &&
	       (!a->len || !memcmp(a->bytes, b->bytes, a->len));
}

/* What was replaced is what was read: the update is complete. Else -EAGAIN, and it is kept. */
static int judge(struct update *u, const struct text *before)
{
	struct guid2lid theirs;
	struct text text;
	int ret = read_text(u->beside, &text);

	if (ret || !text.there)
		return ret;
	if (same_text(&text, before)) {
		free(text.bytes);
		unlink(u->beside);
		return 0;
	}
	u->replaced = text;
	guid2lid_init(&theirs);
	ret = guid2lid_parse(&theirs, text.bytes, text.len);
	/* The newer of two that were replaced wins. */
	for (size_t i = 0; i < theirs.count && !ret; i++)
		ret = guid2lid_set(&u->missing, &theirs.entries[i]);
	guid2lid_destroy(&theirs);
	return ret ? ret : -EAGAIN;
}

/* In the place of one that an update has left, whose entries it has. */
static int write_beside(const struct update *u, const char *bytes, size_t len,
			const struct text *like)
{
	char fresh[PATH_MAX];
	int ret;

	if ((size_t)snprintf(fresh, sizeof(fresh), "%s.new", u->beside) >= sizeof(fresh))
		return -ENAMETOOLONG;
	ret = write_file(fresh, bytes, len, like);
	if (ret || !rename(fresh, u->beside))
		return ret;
	ret = -errno;
	unlink(fresh);
	return ret;
}

static void forget_replaced(struct update *u)
{
	free(u->written.bytes);
	free(u->replaced.bytes);
	u->written = u->replaced = (struct text){0};
}

static int replace(struct update *u, const struct text *before)
{
	struct text now = {.there = true};
	int ret;

	now.bytes = guid2lid_format(&u->table, &now.len);
	if (!now.bytes)
		return -ENOMEM;
	if (same_text(&now, before)) {
		free(now.bytes);
		unlink(u->beside);
		return 0;
	}
	ret = keep_damaged(u, before);
	if (!ret)
		ret = write_beside(u, now.bytes, now.len, before);
	if (!ret) {
		ret = exchange(u->path, u->beside, before->there);
		if (ret && !u->missing.count)
			unlink(u->beside);
	}
	if (ret) {
		free(now.bytes);
		return ret;
	}
	forget_replaced(u);
	u->written = now;
	u->change.written = true;
	ret = judge(u, before);
	sync_folder(u->path);
	return ret;
}

/* The table that is to be: of the file, or of what the round before has taken its place. */
static int build(struct update *u, const struct text *file, bool with_entries)
{
	const struct text *from =
		same_text(file, &u->written) && u->replaced.there ? &u->replaced : file;
	int ret = guid2lid_parse(&u->table, from->bytes ? from->bytes : "", from->len);

	if (!ret)
		ret = bring_in(&u->table, &u->missing);
	return ret || !with_entries ? ret : set_entries(u);
}

static int round_of(struct update *u)
{
	struct text before;
	bool taken;
	int ret = read_text(u->path, &before);

	if (ret)
		return ret;
	ret = build(u, &before, true);
	/* Meanwhile another GUID has such a LID: what was written goes. */
	taken = ret == -EADDRINUSE && u->change.written;
	if (taken)
		ret = build(u, &before, false);
	if (!ret)
		ret = replace(u, &before);
	free(before.bytes);
	return taken && !ret ? -EADDRINUSE : ret;
}

static int update(struct update *u, struct guid2lid_change *change, size_t size)
{
	int ret;

	copy_out(change, size, NULL, 0);
	if ((size_t)snprintf(u->beside, sizeof(u->beside), "%s.lidtrack", u->path) >=
	    sizeof(u->beside))
		return -ENAMETOOLONG;
	/* An update that was killed has left it. */
	ret = guid2lid_read(&u->missing, u->beside);
	while (!ret) {
		ret = round_of(u);
		if (ret != -EAGAIN || u->change.rounds++ >= MAX_ROUNDS)
			break;
		ret = 0;
	}
	forget_replaced(u);
	guid2lid_destroy(&u->table);
	guid2lid_destroy(&u->missing);
	copy_out(change, size, &u->change, sizeof(u->change));
	return ret;
}

int guid2lid_update(const char *path, const struct guid2lid_entry *entries, size_t count,
		    struct guid2lid_change *change, size_t size, struct guid2lid_entry *other)
{
	struct update u = {.path = path, .entries = entries, .count = count, .other = other};

	return update(&u, change, size);
}

int guid2lid_follow(const char *path, const struct guid2lid_entry *entries, size_t count,
		    struct guid2lid_change *change, size_t size)
{
	struct update u = {.path = path, .entries = entries, .count = count, .follows = true};

	return update(&u, change, size);
}
