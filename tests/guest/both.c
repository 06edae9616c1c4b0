/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A user's program that has a device of the kernel and a urxe device at once, and one event channel
 * for both: both KERNEL-DEVICE ADDRESS URXE-DEVICE ADDRESS. Its listener listens on any address; it
 * connects to itself over either device, moves data both ways over the two connections in turn,
 * moves ids to another channel, and ends. In between it looks whether the channel behaves as one of
 * the kernel's own does: O_NONBLOCK, poll, signals, cancellation. Prints what it has done; exit
 * status 0 when every byte and every event was right. A wrong count of events shows as
 * rdma_destroy_id() that does not return.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#define SIZE   65536
#define ROUNDS 8
#define PORT   7471
#define KINDS  2

/* An end of a connection. */
struct end {
	struct rdma_cm_id *id;
	struct ibv_mr *out, *in;
};

/* What there is once for the kernel's device and once for urxe's. */
static struct kind {
	const char *device, *address;
	struct end active, passive;
} kinds[KINDS];

static struct rdma_event_channel *channel;
static struct rdma_cm_id *listener;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

#define CHECK(cond)                                                                            \
	do {                                                                                   \
		if (!(cond)) {                                                                 \
			fprintf(stderr, "line %d: not true: %s (errno %d)\n", __LINE__, #cond, \
				errno);                                                        \
			exit(1);                                                               \
		}                                                                              \
	} while (0)

static void fill(char *to, unsigned seed)
{
	for (int i = 0; i < SIZE; i++)
		to[i] = (char)((i * 2654435761u >> 7) + seed);
}

static struct sockaddr_in address_of(const char *text)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	CHECK(inet_pton(AF_INET, text, &addr.sin_addr) == 1);
	return addr;
}

static struct rdma_cm_id *new_id(void *context)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, context, RDMA_PS_TCP))
		die("rdma_create_id");
	return id;
}

static void resolve(struct rdma_cm_id *id, const char *address)
{
	struct sockaddr_in to = address_of(address);

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000))
		die("rdma_resolve_addr");
}

static bool readable(int timeout)
{
	struct pollfd fd = {.fd = channel->fd, .events = POLLIN};

	return poll(&fd, 1, timeout) == 1;
}

static struct rdma_cm_event *next_event(struct rdma_event_channel *from)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(from, &event))
		die("rdma_get_cm_event");
	return event;
}

/* ---- the channel ---- */

static void not_blocking(void)
{
	int flags = fcntl(channel->fd, F_GETFL);
	struct rdma_cm_event *event;

	CHECK(!fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK));
	CHECK(rdma_get_cm_event(channel, &event) && errno == EAGAIN);
	CHECK(!readable(0));
	CHECK(!fcntl(channel->fd, F_SETFL, flags));
}

/* An event that goes with its id unread leaves nothing to read behind. */
static void destroyed_unread(const char *address)
{
	struct rdma_cm_id *id = new_id(NULL);

	resolve(id, address);
	CHECK(readable(5000));
	CHECK(!rdma_destroy_id(id));
	CHECK(!readable(50));
}

static void nothing(int sig)
{
}

static void *resolve_later(void *id)
{
	usleep(200000);
	resolve(id, ((struct kind *)((struct rdma_cm_id *)id)->context)->address);
	return NULL;
}

/* A thread that waits for an event goes on waiting after signals whose handlers have SA_RESTART. */
static void interrupted(struct kind *kind)
{
	struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_RESTART};
	struct itimerval often = {.it_interval.tv_usec = 20000, .it_value.tv_usec = 20000},
			 never = {0};
	struct rdma_cm_id *id = new_id(kind);
	struct rdma_cm_event *event;
	pthread_t thread;
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	sigaction(SIGALRM, &act, NULL);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	CHECK(!pthread_create(&thread, NULL, resolve_later, id));
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	event = next_event(channel);
	setitimer(ITIMER_REAL, &never, NULL);
	CHECK(event->id == id && event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	rdma_ack_cm_event(event);
	pthread_join(thread, NULL);
	CHECK(!rdma_destroy_id(id));
}

static void *wait_for_ever(void *arg)
{
	next_event(channel);
	return NULL;
}

static void cancelled(void)
{
	pthread_t thread;
	void *result;

	CHECK(!pthread_create(&thread, NULL, wait_for_ever, NULL));
	usleep(50000);
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
	CHECK(result == PTHREAD_CANCELED);
}

/* ---- connections ---- */

static struct kind *kind_of(const struct rdma_cm_id *id)
{
	const char *name = ibv_get_device_name(id->verbs->device);

	for (int i = 0; i < KINDS; i++)
		if (!strcmp(name, kinds[i].device))
			return &kinds[i];
	fprintf(stderr, "an id is on %s\n", name);
	exit(1);
}

static void prepare(struct end *end, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 4, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1};

	end->id = id;
	if (rdma_create_qp(id, NULL, &init))
		die("rdma_create_qp");
	end->out = rdma_reg_msgs(id, malloc(SIZE), SIZE);
	end->in = rdma_reg_msgs(id, malloc(SIZE), SIZE);
	if (!end->out || !end->in || rdma_post_recv(id, NULL, end->in->addr, SIZE, end->in))
		die("rdma_post_recv");
}

static void expect_device(const struct rdma_cm_id *id, const struct kind *kind)
{
	if (kind_of(id) == kind)
		return;
	fprintf(stderr, "%s is reached over %s\n", kind->address, kind_of(id)->device);
	exit(1);
}

/* Returns whether a side of a connection is established. */
static bool step(const struct rdma_cm_event *event)
{
	struct kind *kind = event->id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		expect_device(event->id, kind);
		if (rdma_resolve_route(event->id, 2000))
			die("rdma_resolve_route");
		return false;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		prepare(&kind->active, event->id);
		if (rdma_connect(event->id, NULL))
			die("rdma_connect");
		return false;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		CHECK(event->listen_id == listener);
		prepare(&kind_of(event->id)->passive, event->id);
		if (rdma_accept(event->id, NULL))
			die("rdma_accept");
		return false;
	case RDMA_CM_EVENT_ESTABLISHED: return true;
	default:
		fprintf(stderr, "%s, status %d\n", rdma_event_str(event->event), event->status);
		exit(1);
	}
}

static void connect_all(void)
{
	struct rdma_cm_event *event;
	int established = 0;

	for (int i = 0; i < KINDS; i++)
		resolve(new_id(&kinds[i]), kinds[i].address);
	while (established < 2 * KINDS) {
		event = next_event(channel);
		established += step(event);
		rdma_ack_cm_event(event);
	}
}

static void transfer(struct end *from, struct end *to, unsigned seed, const char *device)
{
	static char want[SIZE];
	struct ibv_wc wc;

	fill(want, seed);
	memcpy(from->out->addr, want, SIZE);
	if (rdma_post_send(from->id, NULL, from->out->addr, SIZE, from->out, 0) ||
	    rdma_get_send_comp(from->id, &wc) < 1 || wc.status != IBV_WC_SUCCESS)
		die("send");
	if (rdma_get_recv_comp(to->id, &wc) < 1 || wc.status != IBV_WC_SUCCESS)
		die("receive");
	if (memcmp(to->in->addr, want, SIZE)) {
		fprintf(stderr, "%s: wrong bytes in round %u\n", device, seed);
		exit(1);
	}
	memset(to->in->addr, 0, SIZE);
	if (rdma_post_recv(to->id, NULL, to->in->addr, SIZE, to->in))
		die("rdma_post_recv");
}

/* iWARP: the first message is the active side's. */
static void move_data(void)
{
	for (unsigned round = 0; round < ROUNDS; round++)
		for (int i = 0; i < KINDS; i++) {
			transfer(&kinds[i].active, &kinds[i].passive, round, kinds[i].device);
			transfer(&kinds[i].passive, &kinds[i].active, ~round, kinds[i].device);
		}
}

/* The active ends are disconnected by the others, and told so on another channel. */
static void disconnect_all(void)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_event *event;

	CHECK(other);
	for (int i = 0; i < KINDS; i++) {
		CHECK(!rdma_migrate_id(kinds[i].active.id, other));
		CHECK(!rdma_disconnect(kinds[i].passive.id));
		do {
			event = next_event(other);
			CHECK(event->id == kinds[i].active.id ||
			      event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT);
			rdma_ack_cm_event(event);
		} while (event->event != RDMA_CM_EVENT_DISCONNECTED);
	}
	for (int i = 0; i < KINDS; i++) {
		struct end *ends[] = {&kinds[i].active, &kinds[i].passive};

		for (int j = 0; j < 2; j++) {
			rdma_destroy_qp(ends[j]->id);
			rdma_dereg_mr(ends[j]->in);
			rdma_dereg_mr(ends[j]->out);
			CHECK(!rdma_destroy_id(ends[j]->id));
		}
	}
	rdma_destroy_event_channel(other);
}

int main(int argc, char **argv)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (argc != 5) {
		fprintf(stderr, "usage: both KERNEL-DEVICE ADDRESS URXE-DEVICE ADDRESS\n");
		return 2;
	}
	for (int i = 0; i < KINDS; i++) {
		kinds[i].device = argv[1 + 2 * i];
		kinds[i].address = argv[2 + 2 * i];
	}
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	cancelled(); /* before the kernel has a part in the channel, and after */
	listener = new_id(NULL);
	if (rdma_bind_addr(listener, (struct sockaddr *)&any) || rdma_listen(listener, 4))
		die("rdma_listen");
	CHECK(rdma_get_src_port(listener) == htons(PORT));
	not_blocking();
	for (int i = 0; i < KINDS; i++) {
		destroyed_unread(kinds[i].address);
		interrupted(&kinds[i]);
	}
	cancelled();
	connect_all();
	move_data();
	disconnect_all();
	CHECK(!rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
	printf("%d rounds of %d bytes over %s and %s in one process\n", ROUNDS, SIZE, argv[1],
	       argv[3]);
	return 0;
}
