/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The listening sockets, and the links and files by which clients find them. In the loop's thread,
 * at the start, at the end and when the limit of clients is reached.
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

#include "daemons/sacached/acm_listener.h"
#include "daemons/common/log.h"
#include "daemons/common/notify.h"

static const char listener_name[] = "acm-listener"; /* for systemd */

static int no(int error, const char *what, const char *path)
{
	log_error("%s %s: %s", what, path, strerror(-error));
	return error;
}

static void in_dir(const struct acm_listener *listener, const char *file, char path[LISTEN_PATH])
{
	snprintf(path, LISTEN_PATH, "%s/%s", listener->dir, file);
}

/* Whether a process accepts connections there; a full queue counts as one. */
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

/* On loopback connect() succeeds or is refused at once. */
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

/* A new lock file belongs to its folder's owner: a file of root's would keep a later daemon
 * without root's rights from locking it. */
static int create_lock(const char *path, const char *run_dir)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct stat folder;

	if (fd >= 0 && !geteuid() && !stat(run_dir, &folder) &&
	    fchown(fd, folder.st_uid, folder.st_gid))
		log_warning("%s stays root's: %s", path, strerror(errno));
	return fd;
}

/* One sacached for a directory: whatever else is in it then is left over from a dead one. */
static int take_lock(struct acm_listener *listener, const char *run_dir)
{
	char path[LISTEN_PATH];

	snprintf(path, sizeof(path), "%s/lock", run_dir);
	listener->lock_fd = create_lock(path, run_dir);
	if (listener->lock_fd < 0 && errno == EEXIST)
		listener->lock_fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (listener->lock_fd < 0)
		return no(-errno, "cannot open", path);
	if (flock(listener->lock_fd, LOCK_EX | LOCK_NB)) {
		log_error("another sacached runs: it holds %s", path);
		return -EADDRINUSE;
	}
	return 0;
}

/* The name of a socket while its listener is paused. */
static void paused_name(const struct sockaddr_un *address, char path[LISTEN_PATH])
{
	snprintf(path, LISTEN_PATH, "%s.full", address->sun_path);
}

/* Whether a socket can be found by clients. Renames back one that was paused when its daemon was
 * killed. */
static bool has_name(const struct sockaddr_un *address)
{
	char full[LISTEN_PATH];
	struct stat st;

	paused_name(address, full);
	if (stat(address->sun_path, &st) && rename(full, address->sun_path))
		return false;
	return !stat(address->sun_path, &st) && S_ISSOCK(st.st_mode);
}

/* The socket that systemd kept from the last run, or created for the .socket unit. */
static bool take_kept(struct sacached *d, struct acm_listener *listener)
{
	socklen_t length = sizeof(listener->address);
	int fd, listens = 0;
	socklen_t size = sizeof(listens);

	if (notify_take_fds(d->notify, listener_name, &fd, 1) != 1)
		return false;
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens ||
	    getsockname(fd, (struct sockaddr *)&listener->address, &length) ||
	    listener->address.sun_family != AF_UNIX || listener->address.sun_path[0] != '/' ||
	    !has_name(&listener->address)) {
		close(fd);
		return false;
	}
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	listener->fd = fd;
	return true;
}

static int make_socket(struct acm_listener *listener, const char *run_dir)
{
	struct sockaddr_un *address = &listener->address;
	char full[LISTEN_PATH];
	mode_t mask;
	int ret = 0;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/acm.sock", run_dir);
	paused_name(address, full);
	unlink(full);
	if (unlink(address->sun_path) && errno != ENOENT)
		return no(-errno, "cannot replace", address->sun_path);
	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* As ibacm's, for all users. Not by chmod(), which would follow a link of the folder's
	 * owner. */
	mask = umask(0111);
	if (listener->fd < 0 || bind(listener->fd, (struct sockaddr *)address, sizeof(*address)) ||
	    listen(listener->fd, LISTEN_BACKLOG))
		ret = no(-errno, "cannot listen on", address->sun_path);
	umask(mask);
	return ret;
}

/* A correct link is left as it is: only root may be able to make it. */
static int make_link(const struct acm_listener *listener, const char *name, const char *target)
{
	char path[LISTEN_PATH], old[LISTEN_PATH], fresh[LISTEN_PATH + 8];
	ssize_t length;

	in_dir(listener, name, path);
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

/* The daemon's own socket answers, too, if systemd kept it. */
static int check_living(const struct acm_listener *listener, const char *name)
{
	char path[LISTEN_PATH], real[PATH_MAX];

	in_dir(listener, name, path);
	if (listener->fd >= 0 && realpath(path, real) && !strcmp(real, listener->address.sun_path))
		return 0;
	return unix_answers(path) ? living(path) : 0;
}

static int listen_tcp(struct acm_listener *listener)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(listener->tcp_port)};
	int one = 1;

	address.sin_addr.s_addr =
		htonl(listener->tcp == CONFIG_TCP_LOOPBACK ? INADDR_LOOPBACK : INADDR_ANY);
	listener->tcp_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->tcp_fd < 0 ||
	    setsockopt(listener->tcp_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(listener->tcp_fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one)) ||
	    bind(listener->tcp_fd, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(listener->tcp_fd, LISTEN_BACKLOG)) {
		int ret = -errno;

		log_error("cannot listen on TCP port %u: %s", listener->tcp_port, strerror(-ret));
		if (listener->tcp_fd >= 0)
			close(listener->tcp_fd);
		listener->tcp_fd = -1;
		return ret;
	}
	return 0;
}

/* Both of ibacm's names for its port file. With TCP off a stale one would mislead clients. */
static int remove_port_files(struct acm_listener *listener)
{
	static const char *const names[] = {"ibacm.port", "ibacm-tcp.port"};
	char path[LISTEN_PATH];

	for (unsigned i = 0; i < 2; i++) {
		in_dir(listener, names[i], path);
		if (unlink(path) && errno != ENOENT)
			return no(
				-errno,
				"librdmacm goes by this file and would not find us; cannot remove",
				path);
	}
	return 0;
}

static int write_port_files(struct acm_listener *listener)
{
	char path[LISTEN_PATH];
	FILE *file;

	in_dir(listener, "ibacm-tcp.port", path);
	unlink(path);
	file = fopen(path, "wxe");
	if (!file || fprintf(file, "%u\n", listener->tcp_port) < 0 || fclose(file))
		return no(-errno, "cannot write", path);
	chmod(path, 0644);
	listener->port_files = true;
	return make_link(listener, "ibacm.port", "ibacm-tcp.port");
}

static int open_tcp(struct acm_listener *listener)
{
	char path[LISTEN_PATH];
	int ret;

	in_dir(listener, "ibacm-tcp.port", path);
	if (tcp_answers(path))
		return living(path);
	ret = remove_port_files(listener);
	if (ret || listener->tcp == CONFIG_TCP_OFF)
		return ret;
	ret = listen_tcp(listener);
	return ret ? ret : write_port_files(listener);
}

int acm_listener_open(struct sacached *d, struct acm_listener *listener)
{
	const char *run_dir = d->config.run_dir;
	int ret;

	*listener = (struct acm_listener){.fd = -1, .tcp_fd = -1, .lock_fd = -1};
	listener->tcp = d->config.tcp;
	listener->tcp_port = d->config.tcp_port;
	snprintf(listener->dir, sizeof(listener->dir), "%s", d->config.ibacm_dir);
	ret = take_lock(listener, run_dir);
	if (!ret)
		take_kept(d, listener);
	if (!ret)
		ret = check_living(listener, "ibacm-unix.sock");
	if (!ret)
		ret = check_living(listener, "ibacm.sock");
	if (!ret)
		ret = open_tcp(listener);
	if (!ret && listener->fd < 0)
		ret = make_socket(listener, run_dir);
	if (!ret)
		ret = make_link(listener, "ibacm-unix.sock", listener->address.sun_path);
	if (!ret)
		ret = make_link(listener, "ibacm.sock", listener->address.sun_path);
	if (ret)
		acm_listener_close(listener);
	else
		listener->kept = !notify_keep_fds(d->notify, listener_name, &listener->fd, 1);
	return ret;
}

/* Takes the socket's name away, so that connect() fails. Connections that are already queued are
 * accepted. */
bool acm_listener_pause(struct acm_listener *listener, bool pause)
{
	char full[LISTEN_PATH];
	const char *from = listener->address.sun_path, *to = full;

	if (listener->paused == pause)
		return true;
	paused_name(&listener->address, full);
	if (!pause) {
		from = full;
		to = listener->address.sun_path;
	}
	if (rename(from, to))
		return false;
	if (listener->tcp != CONFIG_TCP_OFF && pause) {
		close(listener->tcp_fd);
		listener->tcp_fd = -1;
	} else if (listener->tcp != CONFIG_TCP_OFF) {
		listen_tcp(listener);
	}
	listener->paused = pause;
	return true;
}

static void remove_link(const struct acm_listener *listener, const char *name)
{
	char path[LISTEN_PATH], target[LISTEN_PATH];
	ssize_t length;

	in_dir(listener, name, path);
	length = readlink(path, target, sizeof(target) - 1);
	if (length > 0 && (size_t)length == strlen(listener->address.sun_path) &&
	    !memcmp(target, listener->address.sun_path, length))
		unlink(path);
}

void acm_listener_close(struct acm_listener *listener)
{
	acm_listener_pause(listener, false);
	if (listener->fd >= 0 && !listener->kept) {
		remove_link(listener, "ibacm.sock");
		remove_link(listener, "ibacm-unix.sock");
		unlink(listener->address.sun_path);
	}
	if (listener->port_files)
		remove_port_files(listener);
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->tcp_fd >= 0)
		close(listener->tcp_fd);
	if (listener->lock_fd >= 0)
		close(listener->lock_fd);
	listener->fd = listener->tcp_fd = listener->lock_fd = -1;
}
