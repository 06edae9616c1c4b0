/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The listening sockets, their links and the files that tell clients of them. In the loop's thread,
 * at the start, at the end and when there are too many clients.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemons/sacached/acm_door.h"
#include "daemons/common/log.h"
#include "daemons/common/notify.h"

static const char door_name[] = "acm-door"; /* for systemd */

static int no(int error, const char *what, const char *path)
{
	log_error("%s %s: %s", what, path, strerror(-error));
	return error;
}

static void in_dir(const struct acm_door *door, const char *file, char path[DOOR_PATH])
{
	snprintf(path, DOOR_PATH, "%s/%s", door->dir, file);
}

/* Whether somebody takes connections there; a full queue is somebody's. */
static bool answers(int family, const void *address, socklen_t length)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool yes = fd >= 0 && (!connect(fd, address, length) || errno == EAGAIN);

	if (fd >= 0)
		close(fd);
	return yes;
}

static bool unix_answers(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	if (strlen(path) >= sizeof(address.sun_path))
		return false;
	strcpy(address.sun_path, path);
	return answers(AF_UNIX, &address, sizeof(address));
}

/* On loopback a connection is there, or refused, at once. */
static bool tcp_answers(const char *port_file)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	FILE *file = fopen(port_file, "re");
	unsigned port = 0;
	struct timeval limit = {.tv_sec = 1};
	bool yes;
	int fd;

	if (!file)
		return false;
	if (fscanf(file, "%5u", &port) != 1)
		port = 0;
	fclose(file);
	address.sin_port = htons(port);
	fd = port && port < 65536 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
	if (fd < 0)
		return false;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	yes = !connect(fd, (struct sockaddr *)&address, sizeof(address));
	close(fd);
	return yes;
}

static int living(const char *path)
{
	log_error("somebody answers at %s: stop ibacm first (systemctl stop ibacm.service "
		  "ibacm.socket)",
		  path);
	return -EADDRINUSE;
}

/* A new lock file is its folder's owner's: what root runs must not be in the way of who comes next.
 * */
static int create_lock(const char *path, const char *run_dir)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat folder;

	if (fd >= 0 && !geteuid() && !stat(run_dir, &folder) &&
	    fchown(fd, folder.st_uid, folder.st_gid))
		log_warning("%s stays root's: %s", path, strerror(errno));
	return fd;
}

/* Only one sacached for a directory: what else is in it is of a dead one then. */
static int take_lock(struct acm_door *door, const char *run_dir)
{
	char path[DOOR_PATH];

	snprintf(path, sizeof(path), "%s/lock", run_dir);
	door->lock_fd = create_lock(path, run_dir);
	if (door->lock_fd < 0 && errno == EEXIST)
		door->lock_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (door->lock_fd < 0)
		return no(-errno, "cannot open", path);
	if (flock(door->lock_fd, LOCK_EX | LOCK_NB)) {
		log_error("another sacached runs: it holds %s", path);
		return -EADDRINUSE;
	}
	return 0;
}

/* The name that a socket has while its door is shut. */
static void shut_name(const struct sockaddr_un *address, char path[DOOR_PATH])
{
	snprintf(path, DOOR_PATH, "%s.full", address->sun_path);
}

/* Whether a socket can be found; one whose door was shut when its daemon was killed, again. */
static bool has_name(const struct sockaddr_un *address)
{
	char full[DOOR_PATH];
	struct stat st;

	shut_name(address, full);
	if (stat(address->sun_path, &st) && rename(full, address->sun_path))
		return false;
	return !stat(address->sun_path, &st) && S_ISSOCK(st.st_mode);
}

/* The socket that systemd kept from the last run, or got from its .socket unit. */
static bool take_kept(struct sacached *d, struct acm_door *door)
{
	socklen_t length = sizeof(door->address);
	int fd, listens = 0;
	socklen_t size = sizeof(listens);

	if (notify_take_fds(d->notify, door_name, &fd, 1) != 1)
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens ||
	    getsockname(fd, (struct sockaddr *)&door->address, &length) ||
	    door->address.sun_family != AF_UNIX || door->address.sun_path[0] != '/' ||
	    !has_name(&door->address)) {
		close(fd);
		return false;
	}
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	door->fd = fd;
	return true;
}

static int make_socket(struct acm_door *door, const char *run_dir)
{
	struct sockaddr_un *address = &door->address;
	char full[DOOR_PATH];
	mode_t mask;
	int ret = 0;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/acm.sock", run_dir);
	shut_name(address, full);
	unlink(full);
	if (unlink(address->sun_path) && errno != ENOENT)
		return no(-errno, "cannot replace", address->sun_path);
	door->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* As ibacm's, for everybody. Not by chmod(), which would follow whoever owns the folder. */
	mask = umask(0111);
	if (door->fd < 0 || bind(door->fd, (struct sockaddr *)address, sizeof(*address)) ||
	    listen(door->fd, DOOR_BACKLOG))
		ret = no(-errno, "cannot listen on", address->sun_path);
	umask(mask);
	return ret;
}

/* A link that is right already may be one that only root can make. */
static int make_link(const struct acm_door *door, const char *name, const char *target)
{
	char path[DOOR_PATH], old[DOOR_PATH], fresh[DOOR_PATH + 8];
	ssize_t length;

	in_dir(door, name, path);
	if (!strcmp(path, target))
		return 0;
	length = readlink(path, old, sizeof(old) - 1);
	if (length > 0 && (size_t)length == strlen(target) && !memcmp(old, target, length))
		return 0;
	snprintf(fresh, sizeof(fresh), "%s.new", path);
	unlink(fresh);
	if (symlink(target, fresh) || rename(fresh, path))
		return no(-errno, "cannot make the link", path);
	return 0;
}

/* Its own socket answers, too, if it was kept. */
static int check_living(const struct acm_door *door, const char *name)
{
	char path[DOOR_PATH], real[PATH_MAX];

	in_dir(door, name, path);
	if (door->fd >= 0 && realpath(path, real) && !strcmp(real, door->address.sun_path))
		return 0;
	return unix_answers(path) ? living(path) : 0;
}

static int listen_tcp(struct acm_door *door)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(door->tcp_port)};
	int one = 1;

	address.sin_addr.s_addr =
		htonl(door->tcp == CONFIG_TCP_LOOPBACK ? INADDR_LOOPBACK : INADDR_ANY);
	door->tcp_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (door->tcp_fd < 0 ||
	    setsockopt(door->tcp_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(door->tcp_fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) ||
	    bind(door->tcp_fd, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(door->tcp_fd, DOOR_BACKLOG)) {
		int ret = -errno;

		log_error("cannot listen on TCP port %u: %s", door->tcp_port, strerror(-ret));
		if (door->tcp_fd >= 0)
			close(door->tcp_fd);
		door->tcp_fd = -1;
		return ret;
	}
	return 0;
}

/* Of ibacm's two names for its port file; with TCP off they would lead clients astray. */
static int remove_port_files(struct acm_door *door)
{
	static const char *const names[] = {"ibacm.port", "ibacm-tcp.port"};
	char path[DOOR_PATH];

	for (unsigned i = 0; i < 2; i++) {
		in_dir(door, names[i], path);
		if (unlink(path) && errno != ENOENT)
			return no(
				-errno,
				"librdmacm goes by this file and would not find us; cannot remove",
				path);
	}
	return 0;
}

static int write_port_files(struct acm_door *door)
{
	char path[DOOR_PATH];
	FILE *file;

	in_dir(door, "ibacm-tcp.port", path);
	unlink(path);
	file = fopen(path, "wxe");
	if (!file || fprintf(file, "%u\n", door->tcp_port) < 0 || fclose(file))
		return no(-errno, "cannot write", path);
	chmod(path, 0644);
	door->port_files = true;
	return make_link(door, "ibacm.port", "ibacm-tcp.port");
}

static int open_tcp(struct acm_door *door)
{
	char path[DOOR_PATH];
	int ret;

	in_dir(door, "ibacm-tcp.port", path);
	if (tcp_answers(path))
		return living(path);
	ret = remove_port_files(door);
	if (ret || door->tcp == CONFIG_TCP_OFF)
		return ret;
	ret = listen_tcp(door);
	return ret ? ret : write_port_files(door);
}

int acm_door_open(struct sacached *d, struct acm_door *door)
{
	const char *run_dir = d->config.run_dir;
	int ret;

	*door = (struct acm_door){.fd = -1, .tcp_fd = -1, .lock_fd = -1};
	door->tcp = d->config.tcp;
	door->tcp_port = d->config.tcp_port;
	snprintf(door->dir, sizeof(door->dir), "%s", d->config.ibacm_dir);
	ret = take_lock(door, run_dir);
	if (!ret)
		take_kept(d, door);
	if (!ret)
		ret = check_living(door, "ibacm-unix.sock");
	if (!ret)
		ret = check_living(door, "ibacm.sock");
	if (!ret)
		ret = open_tcp(door);
	if (!ret && door->fd < 0)
		ret = make_socket(door, run_dir);
	if (!ret)
		ret = make_link(door, "ibacm-unix.sock", door->address.sun_path);
	if (!ret)
		ret = make_link(door, "ibacm.sock", door->address.sun_path);
	if (ret)
		acm_door_close(door);
	else
		door->kept = !notify_keep_fds(d->notify, door_name, &door->fd, 1);
	return ret;
}

/* The socket's name is taken away: who connects finds nobody. Those in its queue are still let in.
 * */
bool acm_door_shut(struct acm_door *door, bool shut)
{
	char full[DOOR_PATH];
	const char *from = door->address.sun_path, *to = full;

	if (door->shut == shut)
		return true;
	shut_name(&door->address, full);
	if (!shut) {
		from = full;
		to = door->address.sun_path;
	}
	if (rename(from, to))
		return false;
	if (door->tcp != CONFIG_TCP_OFF && shut) {
		close(door->tcp_fd);
		door->tcp_fd = -1;
	} else if (door->tcp != CONFIG_TCP_OFF) {
		listen_tcp(door);
	}
	door->shut = shut;
	return true;
}

static void remove_link(const struct acm_door *door, const char *name)
{
	char path[DOOR_PATH], target[DOOR_PATH];
	ssize_t length;

	in_dir(door, name, path);
	length = readlink(path, target, sizeof(target) - 1);
	if (length > 0 && (size_t)length == strlen(door->address.sun_path) &&
	    !memcmp(target, door->address.sun_path, length))
		unlink(path);
}

void acm_door_close(struct acm_door *door)
{
	acm_door_shut(door, false);
	if (door->fd >= 0 && !door->kept) {
		remove_link(door, "ibacm.sock");
		remove_link(door, "ibacm-unix.sock");
		unlink(door->address.sun_path);
	}
	if (door->port_files)
		remove_port_files(door);
	if (door->fd >= 0)
		close(door->fd);
	if (door->tcp_fd >= 0)
		close(door->tcp_fd);
	if (door->lock_fd >= 0)
		close(door->lock_fd);
	door->fd = door->tcp_fd = door->lock_fd = -1;
}
