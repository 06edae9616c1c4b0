/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * thsim's loop. Events are carried out as far as every host allows by its clock (glex_shared.h);
 * where one of them holds time back, the thread looks for its next request, for some microseconds
 * by spinning, then asleep in epoll. Connections are looked after at each sleep and after each
 * ROUND events. One thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "inband/sim/host.h"
#include "inband/sim/serve.h"

#define SPINS 300 /* some 10 us, as glex.c has it */
#define ROUND 20000

struct server {
	struct sim *sim;
	int epoll, listener, stop;
	const struct broken *broken;
	unsigned count;
	bool ending;
};

static int watch(struct server *server, int fd, void *who)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};

	return epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

static void send_fds(struct host *host)
{
	int fds[3] = {host->memory, host->kick, host->bell};
	char control[CMSG_SPACE(sizeof(fds))] = {0}, text[] = "ok";
	struct iovec part = {.iov_base = text, .iov_len = 2};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(header), fds, sizeof(fds));
	sendmsg(host->socket, &message, MSG_NOSIGNAL);
}

/* An endpoint, or a command, after which the client goes. */
static void greet(struct server *server, int fd)
{
	static char answer[GLEX_MESSAGE];
	struct timeval patience = {.tv_sec = 1};
	char text[1024];
	struct host *host;
	unsigned nic;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	n = recv(fd, text, sizeof(text) - 1, 0);
	if (n <= 0) {
		close(fd);
		return;
	}
	text[n] = 0;
	if (sscanf(text, "endpoint %u", &nic) == 1) {
		if (host_create(server->sim, nic, &host)) {
			close(fd);
			return;
		}
		host->socket = fd;
		if (watch(server, fd, host) || watch(server, host->kick, NULL))
			host_destroy(server->sim, host);
		else
			send_fds(host);
		return;
	}
	command_answer(server->sim, server->broken, server->count, text, answer);
	send(fd, answer, strlen(answer), MSG_NOSIGNAL);
	close(fd);
}

/* Kicks are drained together: they only end a sleep. */
static void drain_kicks(struct server *server)
{
	uint64_t count;

	for (struct host *host = server->sim->hosts; host; host = host->next)
		if (read(host->kick, &count, sizeof(count)) < 0)
			continue;
}

static int look(struct server *server, int timeout)
{
	struct epoll_event events[16];
	int n = epoll_wait(server->epoll, events, 16, timeout);

	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	drain_kicks(server);
	for (int i = 0; i < n; i++) {
		void *who = events[i].data.ptr;

		if (who == &server->stop) {
			server->ending = true;
		} else if (who == &server->listener) {
			int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);

			if (fd >= 0)
				greet(server, fd);
		} else if (who) {
			/* A host says nothing more: it has gone. */
			host_destroy(server->sim, who);
			break;
		}
	}
	return 0;
}

/* Lets time pass as far as all hosts allow, or some of it. False: nothing has happened. */
static bool pass_time(struct sim *sim)
{
	uint64_t before = sim->now, done;
	unsigned events = 0;

	sim->limit = sim->hosts ? SIM_NEVER : 0;
	for (struct host *host = sim->hosts; host; host = host->next) {
		uint64_t limit = host_limit(sim, host);

		if (limit < sim->limit)
			sim->limit = limit;
	}
	while (sim_step(sim, sim->limit))
		if (++events == ROUND)
			return true;
	done = sim->limit < SIM_NEVER ? sim->limit : 0;
	if (sim->now + 1 < done)
		sim->now = done - 1;
	for (struct host *host = sim->hosts; host; host = host->next)
		host_tell(host, done);
	return events || sim->now != before;
}

static void sleep_state(struct sim *sim, uint32_t sleeps)
{
	for (struct host *host = sim->hosts; host; host = host->next)
		atomic_store(&host->shared->sim_sleeps, sleeps);
	atomic_thread_fence(memory_order_seq_cst);
}

static int wait_for_hosts(struct server *server)
{
	struct sim *sim = server->sim;
	int ret;

	for (unsigned i = 0; i < SPINS; i++) {
		if (pass_time(sim))
			return 0;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	sleep_state(sim, 1);
	if (pass_time(sim))
		ret = look(server, 0);
	else
		ret = look(server, -1);
	sleep_state(sim, 0);
	return ret;
}

static int listen_at(struct server *server, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	mode_t mask;
	int ret, probe;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	strcpy(address.sun_path, path);
	/* A socket that nobody listens at is left from before. */
	probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ret = connect(probe, (struct sockaddr *)&address, sizeof(address));
	if (ret && errno == ECONNREFUSED)
		unlink(path);
	close(probe);
	if (!ret)
		return -EADDRINUSE;
	server->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	mask = umask(0177);
	ret = bind(server->listener, (struct sockaddr *)&address, sizeof(address)) ||
			      listen(server->listener, 16)
		      ? -errno
		      : 0;
	umask(mask);
	return ret;
}

int serve(struct sim *sim, const char *path, int stop, const struct broken *broken, unsigned count)
{
	struct server server = {.sim = sim,
				.stop = stop,
				.broken = broken,
				.count = count,
				.listener = -1,
				.epoll = epoll_create1(EPOLL_CLOEXEC)};
	unsigned rounds = 0;
	int ret = listen_at(&server, path);

	if (ret) {
		fprintf(stderr, "thsim: %s: %s\n", path,
			ret == -EADDRINUSE ? "another thsim listens there; give --listen PATH"
					   : strerror(-ret));
		if (server.listener >= 0)
			close(server.listener);
		close(server.epoll);
		return ret;
	}
	ret = watch(&server, server.listener, &server.listener);
	if (!ret)
		ret = watch(&server, stop, &server.stop);
	printf("thsim: ready at %s\n", path);
	fflush(stdout);
	while (!ret && !server.ending) {
		ret = wait_for_hosts(&server);
		if (!ret && ++rounds % 256 == 0)
			ret = look(&server, 0);
	}
	while (sim->hosts)
		host_destroy(sim, sim->hosts);
	unlink(path);
	close(server.listener);
	close(server.epoll);
	return ret;
}
