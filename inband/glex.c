/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libglex's side of the rings. See glex_shared.h for the protocol.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "inband/glex.h"
#include "inband/glex_shared.h"

#define SPINS 300 /* looks for the other side before sleeping: some 10 us */

struct glex_ep {
	struct glex_shared *shared;
	int socket, kick, bell;
	int both;	       /* epoll of bell and socket, for event loops */
	uint64_t clock, until; /* until: 0, it does not wait */
	uint64_t send_cost, receive_cost;
	uint32_t sdq_tail, mpq_head;
};

const char *glex_default_path(char *path, size_t length)
{
	const char *told = getenv("THSIM_SOCKET"), *run = getenv("XDG_RUNTIME_DIR");

	if (told && *told)
		snprintf(path, length, "%s", told);
	else if (run && *run)
		snprintf(path, length, "%s/thsim.sock", run);
	else
		snprintf(path, length, "/tmp/thsim-%u.sock", (unsigned)getuid());
	return path;
}

static int reach(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char made[256];
	int fd;

	if (!path)
		path = glex_default_path(made, sizeof(made));
	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* "ok" with memory, kick and bell. */
static bool receive_fds(int fd, int fds[3])
{
	char text[64], control[CMSG_SPACE(3 * sizeof(int))];
	struct iovec part = {.iov_base = text, .iov_len = sizeof(text)};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control)};
	struct cmsghdr *header;
	ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);

	header = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (!header || header->cmsg_type != SCM_RIGHTS ||
	    header->cmsg_len != CMSG_LEN(3 * sizeof(int)))
		return false;
	memcpy(fds, CMSG_DATA(header), 3 * sizeof(int));
	return true;
}

glex_ret_t glex_create_ep(const char *path, unsigned nic, glex_ep_handle_t *made)
{
	struct glex_ep *ep = calloc(1, sizeof(*ep));
	char hello[32];
	int fds[3] = {-1, -1, -1};

	if (!ep)
		return GLEX_NO_MEMORY;
	ep->shared = MAP_FAILED;
	ep->kick = ep->bell = ep->both = -1;
	ep->socket = reach(path);
	snprintf(hello, sizeof(hello), "endpoint %u", nic);
	if (ep->socket < 0 || send(ep->socket, hello, strlen(hello), MSG_NOSIGNAL) < 0 ||
	    !receive_fds(ep->socket, fds)) {
		glex_destroy_ep(ep);
		return GLEX_NO_HOST;
	}
	ep->kick = fds[1];
	ep->bell = fds[2];
	ep->shared = mmap(NULL, sizeof(*ep->shared), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	close(fds[0]);
	if (ep->shared == MAP_FAILED) {
		glex_destroy_ep(ep);
		return GLEX_NO_MEMORY;
	}
	if (ep->shared->magic != GLEX_MAGIC || ep->shared->sdq_entries != GLEX_SDQ ||
	    ep->shared->mpq_entries != GLEX_MPQ) {
		glex_destroy_ep(ep);
		return GLEX_NO_HOST;
	}
	ep->send_cost = ep->shared->send_cost;
	ep->receive_cost = ep->shared->receive_cost;
	ep->clock = atomic_load(&ep->shared->done);
	*made = ep;
	return GLEX_OK;
}

void glex_destroy_ep(glex_ep_handle_t ep)
{
	if (!ep)
		return;
	if (ep->shared != MAP_FAILED)
		munmap(ep->shared, sizeof(*ep->shared));
	if (ep->socket >= 0)
		close(ep->socket);
	if (ep->kick >= 0)
		close(ep->kick);
	if (ep->bell >= 0)
		close(ep->bell);
	if (ep->both >= 0)
		close(ep->both);
	free(ep);
}

static bool has_entry(const struct glex_ep *ep)
{
	return ep->mpq_head != atomic_load_explicit(&ep->shared->mpq_tail, memory_order_acquire);
}

static bool wait_over(const struct glex_ep *ep)
{
	return has_entry(ep) ||
	       atomic_load_explicit(&ep->shared->done, memory_order_acquire) >= ep->until;
}

/* From now on nothing is sent before ep->clock, and the server works. */
static void store_clock(struct glex_ep *ep)
{
	ep->until = 0;
	atomic_store_explicit(&ep->shared->until, 0, memory_order_relaxed);
	atomic_store_explicit(&ep->shared->clock, ep->clock, memory_order_release);
}

/* Has time pass until `deadline`, or the first entry. */
static void let_pass(struct glex_ep *ep, uint64_t deadline)
{
	uint64_t one = 1;

	ep->until = deadline < GLEX_FOREVER ? deadline + 1 : GLEX_FOREVER;
	atomic_store(&ep->shared->until, ep->until);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&ep->shared->sim_sleeps) && atomic_exchange(&ep->shared->sim_sleeps, 0) &&
	    write(ep->kick, &one, sizeof(one)) < 0)
		return; /* the counter is full: it will wake all the same */
}

/* Goes on with work: if the time was waited for, it is the time now. */
static void stop_waiting(struct glex_ep *ep)
{
	uint64_t done = atomic_load_explicit(&ep->shared->done, memory_order_acquire);

	if (!ep->until)
		return;
	if (ep->clock + 1 < done)
		ep->clock = done - 1;
	store_clock(ep);
}

glex_ret_t glex_send_mgmt_req(glex_ep_handle_t ep, struct glex_mgmt_info *req, int32_t flag)
{
	struct glex_shared *s = ep->shared;
	struct glex_slot *slot = &s->sdq[ep->sdq_tail % GLEX_SDQ];
	struct nmp *nmp = &req->nmp;

	if (!nmp_is_request(nmp->type))
		return GLEX_INVALID;
	if (ep->sdq_tail - atomic_load_explicit(&s->sdq_head, memory_order_acquire) >= GLEX_SDQ)
		return GLEX_BUSY;
	stop_waiting(ep);
	nmp->dest_vp = nmp->src_vp = s->vp;
	nmp->src_id = s->nic_id;
	nmp->src_type = NMP_NIC;
	nmp->rt_type = NMP_BY_SOURCE;
	nmp->kind = nmp->sm = 1;
	nmp->head = NMP_HEAD;
	nmp->fence = flag & GLEX_FENCE;
	nmp_to_descriptor(nmp, &slot->descriptor);
	ep->clock += ep->send_cost;
	slot->time = ep->clock;
	atomic_store_explicit(&s->sdq_tail, ++ep->sdq_tail, memory_order_release);
	store_clock(ep);
	return GLEX_OK;
}

static bool take(struct glex_ep *ep, struct glex_mgmt_info *ack)
{
	struct glex_shared *s = ep->shared;
	struct glex_slot *slot = &s->mpq[ep->mpq_head % GLEX_MPQ];

	if (!has_entry(ep))
		return false;
	ack->time = slot->time;
	/* A refused descriptor comes back with Err set, and may be anything. */
	if (nmp_from_descriptor(&slot->descriptor, &ack->nmp))
		ack->nmp.err = 1;
	if (ep->clock < ack->time)
		ep->clock = ack->time;
	ep->clock += ep->receive_cost;
	store_clock(ep);
	atomic_store_explicit(&s->mpq_head, ++ep->mpq_head, memory_order_release);
	return true;
}

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

/* Whether the wait is over; if it is by time alone, the clock has it. */
static bool look(struct glex_ep *ep)
{
	if (!wait_over(ep))
		return false;
	atomic_store_explicit(&ep->shared->server_sleeps, 0, memory_order_relaxed);
	if (!has_entry(ep))
		stop_waiting(ep);
	return true;
}

glex_ret_t glex_arm(glex_ep_handle_t ep, uint64_t deadline)
{
	let_pass(ep, deadline);
	for (unsigned i = 0; i < SPINS; i++) {
		if (look(ep))
			return GLEX_OK;
		pause_cpu();
	}
	atomic_store(&ep->shared->server_sleeps, 1);
	atomic_thread_fence(memory_order_seq_cst);
	return look(ep) ? GLEX_OK : GLEX_TIMEOUT;
}

glex_ret_t glex_check(glex_ep_handle_t ep)
{
	struct pollfd gone = {.fd = ep->socket, .events = POLLIN};
	uint64_t count;
	bool rung = read(ep->bell, &count, sizeof(count)) > 0;

	if (look(ep))
		return GLEX_OK;
	return !rung && poll(&gone, 1, 0) > 0 ? GLEX_GONE : GLEX_TIMEOUT;
}

static glex_ret_t wait_awake(struct glex_ep *ep, uint64_t deadline)
{
	struct pollfd fds[2] = {{.fd = ep->bell, .events = POLLIN},
				{.fd = ep->socket, .events = POLLIN}};
	glex_ret_t ret = glex_arm(ep, deadline);

	while (ret == GLEX_TIMEOUT) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return GLEX_GONE;
		ret = glex_check(ep);
	}
	return ret;
}

glex_ret_t glex_receive_mgmt_ack(glex_ep_handle_t ep, int32_t timeout, struct glex_mgmt_info *ack)
{
	glex_ret_t ret;

	if (take(ep, ack))
		return GLEX_OK;
	if (!timeout)
		return GLEX_TIMEOUT;
	ret = wait_awake(ep, timeout < 0 ? GLEX_FOREVER
					 : ep->clock + (uint64_t)timeout * 1000000000ull);
	if (ret != GLEX_OK)
		return ret;
	return take(ep, ack) ? GLEX_OK : GLEX_TIMEOUT;
}

int glex_fd(glex_ep_handle_t ep)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (ep->both < 0) {
		ep->both = epoll_create1(EPOLL_CLOEXEC);
		if (epoll_ctl(ep->both, EPOLL_CTL_ADD, ep->bell, &event) ||
		    epoll_ctl(ep->both, EPOLL_CTL_ADD, ep->socket, &event))
			return -1;
	}
	return ep->both;
}

uint64_t glex_now(glex_ep_handle_t ep)
{
	return ep->clock;
}

uint32_t glex_nic_id(glex_ep_handle_t ep)
{
	return ep->shared->nic_id;
}

uint32_t glex_vp(glex_ep_handle_t ep)
{
	return ep->shared->vp;
}

void glex_set_cost(glex_ep_handle_t ep, uint64_t send, uint64_t receive)
{
	ep->send_cost = send;
	ep->receive_cost = receive;
}

char *glex_tell(const char *path, const char *command)
{
	char *answer = malloc(GLEX_MESSAGE + 1);
	int fd = reach(path);
	ssize_t n = -1;

	if (fd >= 0 && answer && send(fd, command, strlen(command), MSG_NOSIGNAL) >= 0)
		n = recv(fd, answer, GLEX_MESSAGE, 0);
	if (fd >= 0)
		close(fd);
	if (n <= 0) {
		free(answer);
		return NULL;
	}
	answer[n] = 0;
	return answer;
}

const char *glex_ret_name(glex_ret_t ret)
{
	static const char *const names[] = {
		"ok",
		"descriptor queue full",
		"timed out",
		"invalid argument",
		"no thsim answers there, or it has no such management NIC",
		"thsim has ended",
		"no memory"};

	return ret <= GLEX_NO_MEMORY ? names[ret] : "unknown";
}
