// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Serves the programs of all hosts: accepts them, reads what they write to their umad files and
 * sends what arrives for them, registers their agents. One epoll descriptor, which a daemon's loop
 * watches; nothing blocks but that. What a program sends is not trusted: a datagram that makes no
 * sense is dropped, and so is a connection that does not begin as it should.
 *
 * fabricd's thread.
 */
#include "fabric/server.h"

#include "fabric/ledger.h"
#include "fabric/member.h"
#include "fabric/names.h"
#include "fabric/path.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BATCH		16
#define MOST_LEN	1024
#define SAME_TURNS	8
#define BUFFER		(4u << 20)
#define ACCEPT_AGAIN_MS 100

#define KEPT_FOR_PROGRAMS 16 /* descriptors */
#define KEPT_FOR_OPERATOR 4

#define SPIN_US	      4
#define QUICK_RINGS   4 /* one within QUICK_US of the other */
#define QUICK_US      200
#define CROWDED_US    200 /* without the CPU, after it was offered to others */
#define CROWDED_TURNS 100

static_assert(offsetof(struct server, fabric) == 0, "the fabric is the server's first member");

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ull + ts.tv_nsec / 1000;
}

static uint64_t now_ms(void)
{
	return now_us() / 1000;
}

/* ---- hosts ---- */

static bool is_adapter_port(const struct fabric *f, uint32_t port)
{
	if (port >= f->map->num_ports)
		return false;
	return node_of(f, port_at(f, port))->type != NODE_SWITCH && port_at(f, port)->num;
}

static void issm(struct fabric *f, uint32_t index, int change)
{
	struct fabric_port *port = port_at(f, index);
	uint32_t cap = get32(port->info + PI_CAP);
	unsigned sms = f->ports[index].sms += change;

	cap = sms ? cap | CAP_SM : cap & ~CAP_SM;
	if (cap == get32(port->info + PI_CAP))
		return;
	put32(port->info + PI_CAP, cap);
	trap_capabilities(f, port);
}

/* Which adapters the host has that a process names. */
static void find_host(struct connection *c, const struct fabric_hello *h, struct fabric_welcome *w)
{
	char host[FABRIC_NAME_LEN];
	int n;

	snprintf(host, sizeof(host), "%.*s", FABRIC_NAME_LEN - 1, h->host);
	n = names_host(c->server->fabric.map, host, w->adapters, FABRIC_HOST_ADAPTERS, w->message,
		       sizeof(w->message));
	w->error = n < 0 ? ENODEV : 0;
	w->num_adapters = c->num_adapters = n < 0 ? 0 : n;
	memcpy(c->adapters, w->adapters, sizeof(c->adapters));
}

/* Can so many descriptors be opened still? */
static bool descriptors_left(int fd, unsigned wanted)
{
	int fds[KEPT_FOR_PROGRAMS];
	unsigned n = 0;
	bool left;

	while (n < wanted && (fds[n] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
		n++;
	left = n == wanted;
	while (n)
		close(fds[--n]);
	return left;
}

/*
 * The last descriptors are for the programs that are there, and the very last ones
 * for the operator: another program is refused at once, and does not wait until there
 * are some. 0, or an errno.
 */
static int32_t refuse(struct connection *c, uint32_t kind, struct fabric_welcome *w)
{
	if (descriptors_left(c->fd, kind == FABRIC_HOST ? KEPT_FOR_PROGRAMS : KEPT_FOR_OPERATOR))
		return 0;
	snprintf(w->message, sizeof(w->message),
		 "the fabric has no descriptors left for another program: end some, or begin the "
		 "fabric anew where \"ulimit -Hn\" says more");
	/* No device for a new program; for an open() it is not the program's own limit. */
	return kind == FABRIC_HOST ? ENODEV : ENFILE;
}

/* That go with a welcome. */
static unsigned num_fds(uint32_t kind)
{
	return kind == FABRIC_HOST ? 1 : kind == FABRIC_UMAD ? FABRIC_UMAD_FDS : 0;
}

/* What a connection is for; the error is in its welcome. */
static void begin(struct connection *c, const struct fabric_hello *h, struct fabric_welcome *w,
		  int fd, int fds[FABRIC_UMAD_FDS])
{
	struct server *s = c->server;

	w->error = refuse(c, h->kind, w);
	if (w->error)
		return;
	switch (h->kind) {
	case FABRIC_HOST:
	case FABRIC_EVENTS: find_host(c, h, w); break;
	case FABRIC_LEDGER:
		c->ledger = ledger_open(&s->fabric, fd);
		w->error = c->ledger ? 0 : EINVAL;
		break;
	case FABRIC_UMAD:
	case FABRIC_SA:
	case FABRIC_ISSM:
		if (!is_adapter_port(&s->fabric, h->port))
			w->error = ENODEV;
		w->cookie = c->cookie = ++s->next_cookie;
		break;
	default: w->error = EINVAL;
	}
	if (!w->error && h->kind == FABRIC_UMAD)
		w->error = -rings_open(c, fds);
}

static void hello(struct connection *c, const struct fabric_hello *h, size_t len, int fd)
{
	struct server *s = c->server;
	struct fabric_welcome w = {0};
	int fds[FABRIC_UMAD_FDS] = {-1, -1, -1};
	ssize_t sent;

	if (len != sizeof(*h) || h->magic != FABRIC_HELLO_MAGIC || h->version != FABRIC_PROTOCOL) {
		server_drop(c);
		return;
	}
	c->port = h->port;
	begin(c, h, &w, fd, fds);
	if (!w.error)
		c->kind = h->kind;
	sent = outbox_send_now(c, &w, sizeof(w), c->kind == FABRIC_HOST ? &s->fabric.map_fd : fds,
			       num_fds(c->kind));
	if (fds[0] >= 0)
		close(fds[0]);
	if (c->kind == FABRIC_ISSM)
		issm(&s->fabric, c->port, 1);
	if (w.error || sent < 0)
		server_drop(c);
}

static struct connection *file_of_cookie(struct server *s, uint32_t cookie)
{
	struct connection *c = s->connections;

	while (c && ((c->kind != FABRIC_UMAD && c->kind != FABRIC_SA) || c->cookie != cookie))
		c = c->link;
	return c;
}

static void register_agent(struct server *s, struct connection *file,
			   const struct fabric_request *r, struct fabric_reply *reply)
{
	uint32_t id = r->id;

	if (id == FABRIC_AGENTS)
		for (id = 0; id < FABRIC_AGENTS && file->agents[id]; id++)
			;
	if (id >= FABRIC_AGENTS || file->agents[id]) {
		reply->error = ENOMEM;
		return;
	}
	reply->error = host_register(&s->fabric.mads, file, file->port, r, id, &file->agents[id]);
	reply->id = id;
}

static void unregister_agent(struct server *s, struct connection *file,
			     const struct fabric_request *r, struct fabric_reply *reply)
{
	if (r->id >= FABRIC_AGENTS || !file->agents[r->id]) {
		reply->error = EINVAL;
		return;
	}
	member_end(&s->fabric, file->agents[r->id]);
	file->agents[r->id] = NULL;
}

static bool has_adapter(const struct connection *c, uint32_t node)
{
	for (uint32_t i = 0; i < c->num_adapters; i++)
		if (c->adapters[i] == node)
			return true;
	return false;
}

/* Of a port of the process's host. */
static void counters(struct connection *c, const struct fabric_request *r)
{
	struct fabric *f = &c->server->fabric;
	struct fabric_counters answer = {.reply = {.error = ENODEV}};

	if (is_adapter_port(f, r->id) && has_adapter(c, port_at(f, r->id)->node)) {
		answer.reply.error = 0;
		pma_get(f, port_at(f, r->id), r->flags, answer.mad);
	}
	to_program(c, &answer, sizeof(answer), -1);
}

static void request(struct connection *c, const struct fabric_request *r, size_t len)
{
	struct fabric_reply reply = {0};
	struct connection *file;

	if (len != sizeof(*r)) {
		server_drop(c);
		return;
	}
	if (r->command == FABRIC_COUNTERS) {
		counters(c, r);
		return;
	}
	file = file_of_cookie(c->server, r->cookie);
	if (!file)
		reply.error = ENODEV;
	else if (r->command == FABRIC_REGISTER)
		register_agent(c->server, file, r, &reply);
	else if (r->command == FABRIC_UNREGISTER)
		unregister_agent(c->server, file, r, &reply);
	else
		reply.error = EINVAL;
	to_program(c, &reply, sizeof(reply), -1);
}

/* ---- what comes from programs ---- */

/* A long MAD: in a memory file. */
static void long_mad(struct server *s, struct agent *agent, int fd)
{
	struct stat st;
	uint8_t *bytes = NULL;

	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > FABRIC_INLINE &&
	    st.st_size <= FABRIC_MAX_MAD)
		bytes = malloc(st.st_size);
	if (bytes && pread(fd, bytes, st.st_size, 0) == st.st_size)
		host_send(&s->fabric.mads, agent, bytes, st.st_size);
	free(bytes);
}

static void from_umad(struct connection *c, const uint8_t *bytes, size_t len, int fd)
{
	uint32_t id;

	c->server->mads++;
	if (len < FABRIC_UMAD_HDR)
		return;
	memcpy(&id, bytes, sizeof(id));
	if (id >= FABRIC_AGENTS || !c->agents[id])
		return;
	if (fd >= 0)
		long_mad(c->server, c->agents[id], fd);
	else
		host_send(&c->server->fabric.mads, c->agents[id], bytes, len);
}

/* What a process asks the subnet administrator by itself is one MAD. */
static void from_sa(struct connection *c, const uint8_t *bytes, size_t len, int fd)
{
	uint32_t id;

	if (len != FABRIC_INLINE || fd >= 0)
		return;
	memcpy(&id, bytes, sizeof(id));
	if (id < FABRIC_AGENTS && c->agents[id] &&
	    member_sends(&c->server->fabric, c->agents[id], bytes))
		from_umad(c, bytes, len, fd);
}

static void violation(struct connection *c, const struct fabric_violation *v, size_t len)
{
	struct fabric *f = &c->server->fabric;

	if (len == sizeof(*v) && is_adapter_port(f, v->port) &&
	    has_adapter(c, port_at(f, v->port)->node))
		host_violation(f, v);
}

static void packets_passed(struct connection *c, const uint8_t *bytes, size_t len)
{
	uint32_t row;

	if (len != sizeof(row) || !c->ledger)
		return;
	memcpy(&row, bytes, sizeof(row));
	ledger_passed(&c->server->fabric, c->ledger, row);
	to_program(c, &row, sizeof(row), -1);
}

static void port_changed(struct fabric *f, const struct fabric_port *port, bool rereg)
{
	struct fabric_event event = {.port = index_of(f, port), .reregister = rereg};
	struct server *s = (struct server *)f;

	for (struct connection *c = s->connections; c; c = c->link)
		if (c->kind == FABRIC_EVENTS && has_adapter(c, port->node))
			to_program(c, &event, sizeof(event), -1);
}

static void datagram(struct connection *c, const uint8_t *bytes, size_t len, int fd)
{
	switch (c->kind) {
	case FABRIC_UMAD: from_umad(c, bytes, len, fd); break;
	case FABRIC_SA: from_sa(c, bytes, len, fd); break;
	case FABRIC_HOST: request(c, (const struct fabric_request *)bytes, len); break;
	case FABRIC_ISSM: break;
	case FABRIC_EVENTS: violation(c, (const struct fabric_violation *)bytes, len); break;
	case FABRIC_LEDGER: packets_passed(c, bytes, len); break;
	default: hello(c, (const struct fabric_hello *)bytes, len, fd); break;
	}
}

static int fd_in(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	int fd = -1;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

/* Carries out what is in the ring of an open umad file. False: there was nothing. */
static bool from_ring(struct connection *c)
{
	struct mad_ring *ring = c->rings ? &c->rings->to_fabric : NULL;
	_Alignas(8) uint8_t bytes[FABRIC_INLINE];
	unsigned n = 0;
	ssize_t len;

	while (ring && n < MAD_RING_SLOTS &&
	       (len = mad_ring_take(ring, bytes, sizeof(bytes))) >= 0) {
		from_umad(c, bytes, len, -1);
		fabric_run(&c->server->fabric);
		n++;
	}
	return n;
}

/* Mostly it is the program that wrote last. */
static bool serve_same(struct server *s)
{
	uint64_t now;

	if (!s->recent || !from_ring(s->recent))
		return false;
	now = now_us();
	s->quick = now - s->served_us < QUICK_US ? s->quick + 1 : 0;
	s->served_us = now;
	return true;
}

/* Is to be woken by the program that wrote last, from now on. True: it has written meanwhile. */
static bool rest(const struct server *s)
{
	return s->recent && mad_ring_sleep(&s->recent->rings->to_fabric);
}

/*
 * A program has rung its doorbell. It need not ring again until another one has, or there is
 * nothing to do.
 */
static void on_doorbell(struct connection *c)
{
	struct server *s = c->server;

	if (s->recent != c && rest(s))
		from_ring(s->recent);
	s->recent = c;
	serve_same(s);
}

/* Reads what a program has written to its socket and carries it out. False: there was nothing. */
static bool from_program(struct connection *c)
{
	static _Alignas(8) uint8_t bytes[BATCH][MOST_LEN];
	static _Alignas(struct cmsghdr) char controls[BATCH][CMSG_SPACE(sizeof(int))];
	struct mmsghdr msgs[BATCH] = {0};
	struct iovec iovs[BATCH];
	struct server *s = c->server;
	int n;

	for (int i = 0; i < BATCH; i++) {
		iovs[i] = (struct iovec){bytes[i], MOST_LEN};
		msgs[i].msg_hdr.msg_iov = &iovs[i];
		msgs[i].msg_hdr.msg_iovlen = 1;
		msgs[i].msg_hdr.msg_control = controls[i];
		/* Without the padding, where the kernel would put a second descriptor. */
		msgs[i].msg_hdr.msg_controllen = CMSG_LEN(sizeof(int));
	}
	n = recvmmsg(c->fd, msgs, BATCH, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		server_drop(c);
		return false;
	}
	for (int i = 0; i < n; i++) {
		int fd = fd_in(&msgs[i].msg_hdr);
		/* There was no descriptor left for its file: it is the beginning of a MAD. */
		bool cut = fd < 0 && msgs[i].msg_hdr.msg_flags & MSG_CTRUNC;

		/* Nothing at all is the end: nobody sends an empty datagram. */
		if (!c->over && !msgs[i].msg_len)
			server_drop(c);
		if (!c->over && !(cut && c->kind))
			datagram(c, bytes[i], msgs[i].msg_len, fd);
		if (fd >= 0)
			close(fd);
		fabric_run(&s->fabric);
	}
	return true;
}

/* ---- connections ---- */

static void listen_for(struct server *s, bool in)
{
	struct epoll_event ev = {.events = in ? EPOLLIN : 0, .data.ptr = NULL};

	epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->listener, &ev);
}

static void accept_again(struct timer *timer, void *arg)
{
	listen_for(arg, true);
}

/* There are no descriptors left, or no memory: the program waits, and others are served. */
static void accept_later(struct server *s)
{
	listen_for(s, false);
	timer_start(&s->fabric.mads.timers, &s->accept, s->fabric.mads.now + ACCEPT_AGAIN_MS,
		    accept_again);
}

static void accept_program(struct server *s)
{
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int buffer = BUFFER;
	struct epoll_event ev = {.events = EPOLLIN};
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct connection *c;

	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			accept_later(s);
		return;
	}
	c = calloc(1, sizeof(*c));
	ev.data.ptr = c;
	/* The socket's folder is closed to others; a descriptor may have been handed on. */
	if (!c || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) ||
	    (peer.uid != geteuid() && peer.uid) || epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &ev)) {
		close(fd);
		free(c);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer));
	c->doorbell = c->event = -1;
	c->server = s;
	c->fd = fd;
	c->last = &c->first;
	c->link = s->connections;
	s->connections = c;
}

void server_drop(struct connection *c)
{
	struct server *s = c->server;
	struct connection **at = &s->connections;

	while (*at != c)
		at = &(*at)->link;
	*at = c->link;
	c->link = s->over;
	s->over = c;
	c->over = true;
	if (s->recent == c)
		s->recent = NULL;
	for (int i = 0; i < FABRIC_AGENTS; i++) {
		if (c->agents[i])
			member_end(&s->fabric, c->agents[i]);
	}
	if (c->kind == FABRIC_ISSM)
		issm(&s->fabric, c->port, -1);
	if (c->ledger)
		ledger_close(&s->fabric, c->ledger);
	outbox_forget(c);
	rings_forget(c);
	rings_close(c);
	close(c->fd);
}

/* Until it listens it cannot be told from an abandoned one: under the folder's lock. */
static int bind_and_listen(struct server *s)
{
	const struct sockaddr *address = (struct sockaddr *)&s->address;
	int ret = bind(s->listener, address, sizeof(s->address));

	if (ret && errno == EADDRINUSE && fabric_is_abandoned(s->address.sun_path)) {
		unlink(s->address.sun_path);
		ret = bind(s->listener, address, sizeof(s->address));
	}
	if (ret)
		return -errno;
	s->bound = true;
	return listen(s->listener, 1024) ? -errno : 0;
}

int server_open(struct server *s, const char *path)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL};
	int folder, ret;

	s->address.sun_family = AF_UNIX;
	if (strlen(path) >= sizeof(s->address.sun_path))
		return -ENAMETOOLONG;
	strcpy(s->address.sun_path, path);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s->epoll < 0 || s->listener < 0)
		return -errno;
	folder = fabric_lock_folder(path);
	if (folder < 0)
		return folder;
	ret = bind_and_listen(s);
	fabric_unlock_folder(folder);
	if (ret)
		return ret;
	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &ev))
		return -errno;
	s->fabric.port_changed = port_changed;
	s->fabric.mads.now = now_ms();
	s->fabric.clock = now_ms;
	timers_init(&s->fabric.mads.timers, s->fabric.mads.now, &s->fabric);
	return 0;
}

static void serve(struct server *s, const struct epoll_event *ev)
{
	struct connection *c = (struct connection *)(uintptr_t)(ev->data.u64 & ~1ull);

	if (!c) {
		accept_program(s);
		return;
	}
	if (c->over)
		return;
	if (ev->data.u64 & 1) {
		on_doorbell(c);
		return;
	}
	if (ev->events & EPOLLOUT)
		outbox_drain(c);
	if (ev->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		from_ring(c); /* what it wrote before it used the socket */
		from_program(c);
	}
}

/* An earlier event of the turn may have ended a connection that a later one is about. */
static void free_over(struct server *s)
{
	struct connection *c;

	while ((c = s->over)) {
		s->over = c->link;
		free(c);
	}
}

static void tick(struct fabric *f)
{
	f->mads.now = now_ms();
	timers_run(&f->mads.timers, f->mads.now);
	fabric_run(f);
}

/*
 * To wake up takes longer than to carry out an SMP. Where a program asks again and again, its ring
 * is looked at for a moment before the sleep, and others get the CPU between two looks. Where they
 * keep it, better sleep: a thread that is woken gets the CPU at once, one that gave it away does
 * not.
 */
static bool spin(struct server *s)
{
	uint64_t begin = now_us(), before = begin, now;
	bool served = false;

	if (s->crowded)
		s->crowded--;
	if (s->crowded || s->quick < QUICK_RINGS)
		return false;
	do {
		sched_yield();
		now = now_us();
		if (now - before > CROWDED_US)
			s->crowded = CROWDED_TURNS;
		before = now;
		served = serve_same(s);
	} while (!served && !s->crowded && now - begin < SPIN_US);
	return served;
}

bool server_serve(struct server *s, int wait_ms)
{
	struct epoll_event evs[64];
	bool same;
	int n = 0;

	tick(&s->fabric);
	/* Others are looked for now and then. */
	same = serve_same(s) || (wait_ms && spin(s));
	if (!same || !(++s->turns % SAME_TURNS)) {
		outbox_flush(s);
		n = epoll_wait(s->epoll, evs, 64, same || rest(s) ? 0 : wait_ms);
		s->fabric.mads.now = now_ms();
	}
	for (int i = 0; i < n; i++)
		serve(s, &evs[i]);
	/* What connections that have ended leave behind. */
	fabric_run(&s->fabric);
	outbox_flush(s);
	free_over(s);
	return same || n > 0;
}

int server_wait(const struct server *s)
{
	return rest(s) ? 0 : timers_wait(&s->fabric.mads.timers, now_ms());
}

void server_close(struct server *s)
{
	while (s->connections)
		server_drop(s->connections);
	free_over(s);
	if (s->bound)
		unlink(s->address.sun_path);
	if (s->listener >= 0)
		close(s->listener);
	if (s->epoll >= 0)
		close(s->epoll);
	fabric_destroy(&s->fabric);
}
