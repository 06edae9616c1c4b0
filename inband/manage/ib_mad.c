/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * MADs of operations: a window of them, answers by their transaction IDs, retries. The file is read
 * by the loop's thread. While that sleeps another thread waits for the file to become readable,
 * since what stands for it on ibsim is none that epoll knows.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "inband/manage/ib_mad.h"

#define TID_INDEX 0xfffu
#define ROUND	  256 /* MADs that are read before others have their turn */
#define WAIT_MS	  100
#define PERF_QKEY 0x80010000u

uint64_t ib_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

struct ib_op *ib_op_begin(struct fabric *f, struct target *t, fabric_done *done, void *arg)
{
	struct ib_op *op = calloc(1, offsetof(struct ib_op, facts) + sizeof(op->facts));

	if (!op)
		return NULL;
	op->ib = ib_of(f);
	op->target = t;
	op->done = done;
	op->arg = arg;
	op->open = 1;
	op->begun = ib_clock();
	op->last = &op->first;
	return op;
}

void ib_op_end(struct ib_op *op, int status)
{
	if (status && !op->status)
		op->status = status;
	if (--op->open)
		return;
	op->done(op->arg, op->status, &op->facts);
	free(op);
}

void ib_op_end_later(struct ib_op *op)
{
	struct ib *ib = op->ib;

	if (op->open > 1) {
		op->open--;
		return;
	}
	op->due = 0;
	op->next = ib->pauses;
	ib->pauses = op;
}

struct ib_ask *ib_ask(struct ib_op *op, unsigned mclass, unsigned attribute, uint32_t modifier,
		      void (*have)(struct ib_op *op, const struct ib_ask *ask, int status,
				   const uint8_t *data))
{
	struct ib_ask *ask = calloc(1, sizeof(*ask));
	const struct target *t = op->target;

	op->open++;
	if (!ask) {
		ib_op_end(op, -ENOMEM);
		return NULL;
	}
	ask->op = op;
	ask->mclass = mclass;
	ask->method = IB_GET;
	ask->attribute = attribute;
	ask->modifier = modifier;
	ask->have = have;
	/* The way: by the own port, and on; to the own device none. */
	if (t && t->id != op->ib->guid) {
		ask->path[1] = op->ib->port;
		memcpy(ask->path + 2, t->out.port, t->out.hops);
		ask->hops = 1 + t->out.hops;
	}
	return ask;
}

static void enqueue(struct ib *ib, struct ib_ask *ask)
{
	ask->next = NULL;
	*ib->last = ask;
	ib->last = &ask->next;
}

void ib_submit(struct ib_ask *ask)
{
	struct ib_op *op = ask->op;

	if (op->under_way < op->ib->options.per_device) {
		op->under_way++;
		enqueue(op->ib, ask);
		return;
	}
	ask->next = NULL;
	*op->last = ask;
	op->last = &ask->next;
}

/* Its operation's next one takes its place. */
static void finish(struct ib_ask *ask)
{
	struct ib_op *op = ask->op;
	struct ib_ask *next = op->first;

	op->under_way--;
	if (next) {
		op->first = next->next;
		if (!op->first)
			op->last = &op->first;
		op->under_way++;
		enqueue(op->ib, next);
	}
	free(ask->data);
	free(ask);
	ib_op_end(op, 0);
}

static void over(struct ib_ask *ask, int status, const uint8_t *data)
{
	ask->have(ask->op, ask, status, data);
	finish(ask);
}

static void build(const struct ib_ask *ask, uint32_t tid, uint8_t *mad)
{
	memset(mad, 0, IB_MAD);
	mad[0] = 1;
	mad[1] = ask->mclass;
	mad[2] = ask->mclass == IB_SA ? 2 : 1;
	mad[3] = ask->method;
	put64(mad + 8, tid);
	put16(mad + 16, ask->attribute);
	put32(mad + 20, ask->modifier);
	if (ask->mclass == IB_SUBN) {
		mad[7] = ask->hops;
		put32(mad + 32, UINT32_MAX);
		memcpy(mad + 128, ask->path, ask->hops + 1);
	} else if (ask->mclass == IB_PERF) {
		mad[IB_DATA + 1] = ask->modifier; /* the port, where other classes have none */
		put32(mad + 20, 0);
	} else if (ask->data) {
		memcpy(mad + 56, ask->data, IB_MAD - 56);
	}
}

static int agent_of(const struct ib *ib, const struct ib_ask *ask)
{
	return ask->mclass == IB_SUBN ? ib->smi : ask->mclass == IB_PERF ? ib->perf : ib->sa;
}

static void give_back(struct ib *ib, struct ib_flight *flight)
{
	flight->ask = NULL;
	flight->next = ib->free_flight;
	ib->free_flight = flight - ib->flights;
	ib->under_way--;
}

/* False: the port does not take it. */
static bool send_one(struct ib *ib, struct ib_ask *ask)
{
	struct ib_flight *flight = &ib->flights[ib->free_flight];
	const unsigned timeout = ib->options.timeout;

	ib->free_flight = flight->next;
	ib->under_way++;
	flight->ask = ask;
	flight->tid = (uint32_t)(flight - ib->flights) | (++ib->next_tid & 0x7ffff) << 12;
	flight->deadline = ib_clock() + timeout + WAIT_MS;
	memset(ib->out, 0, umad_size());
	build(ask, flight->tid, umad_get_mad(ib->out));
	if (ask->mclass == IB_SUBN)
		umad_set_addr(ib->out, 0xffff, 0, 0, 0);
	else
		umad_set_addr(ib->out, ask->lid, 1, ib->sm_sl, PERF_QKEY);
	ask->tries++;
	ib->counts.sent++;
	if (!umad_send(ib->fd, agent_of(ib, ask), ib->out, IB_MAD, timeout, 0))
		return true;
	give_back(ib, flight);
	return false;
}

static void send_all(struct ib *ib)
{
	while (ib->first && ib->under_way < ib->options.window) {
		struct ib_ask *ask = ib->first;

		ib->first = ask->next;
		if (!ib->first)
			ib->last = &ib->first;
		if (ask->known && ask->known(ask->op, ask))
			finish(ask);
		else if (!send_one(ib, ask))
			over(ask, -EIO, NULL);
	}
}

static void timed_out(struct ib *ib, struct ib_flight *flight)
{
	struct ib_ask *ask = flight->ask;

	give_back(ib, flight);
	if (ask->tries < ib->options.tries) {
		ib->counts.retried++;
		enqueue(ib, ask);
		return;
	}
	ib->counts.timed_out++;
	over(ask, -ETIMEDOUT, NULL);
}

/* ibsim does not say that an answer has not come. */
static void look_for_late(struct ib *ib)
{
	uint64_t now = ib_clock();

	if (now < ib->look)
		return;
	ib->look = now + WAIT_MS;
	for (unsigned i = 0; i < ib->options.window; i++)
		if (ib->flights[i].ask && ib->flights[i].deadline < now)
			timed_out(ib, &ib->flights[i]);
}

static void take(struct ib *ib, int length)
{
	const uint8_t *mad = umad_get_mad(ib->in);
	uint32_t tid = get32(mad + 12);
	struct ib_flight *flight = &ib->flights[tid & TID_INDEX];
	struct ib_ask *ask = (tid & TID_INDEX) < ib->options.window ? flight->ask : NULL;
	int status = umad_status(ib->in);

	if (!status && length >= 36 && mad[1] == IB_SA && mad[3] == IB_REPORT) {
		ib_report(ib, mad);
		return;
	}
	if (!ask || flight->tid != tid) {
		ib->counts.stale++;
		return;
	}
	if (status) {
		timed_out(ib, flight);
		return;
	}
	if (mad[3] != IB_GET_RESP || get16(mad + 16) != ask->attribute) {
		ib->counts.stale++;
		return;
	}
	give_back(ib, flight);
	if (get16(mad + 4) & 0x7fff) {
		ib->counts.refused++;
		over(ask, -EREMOTEIO, NULL);
	} else {
		ib->counts.answered++;
		over(ask, 0, mad + IB_DATA);
	}
}

static void end_pauses(struct ib *ib)
{
	uint64_t now = ib_clock();

	for (struct ib_op **at = &ib->pauses; *at;) {
		struct ib_op *op = *at;

		if (op->due > now) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		ib_op_end(op, 0);
	}
}

static bool is_idle(const struct ib *ib)
{
	return !ib->first && !ib->under_way && !ib->pauses;
}

int ib_progress(struct fabric *f, bool wait)
{
	struct ib *ib = ib_of(f);
	int length;

	send_all(ib);
	if (wait && !is_idle(ib))
		umad_poll(ib->fd, WAIT_MS);
	for (unsigned i = 0; i < ROUND && !umad_poll(ib->fd, 0); i++) {
		length = IB_MAD;
		if (umad_recv(ib->fd, ib->in, &length, 0) >= 0)
			take(ib, length);
		else if (errno != EAGAIN && errno != EINTR && errno != ENOSPC)
			return -EIO;
		send_all(ib);
	}
	look_for_late(ib);
	end_pauses(ib);
	send_all(ib);
	return is_idle(ib);
}

/* ---- the thread that waits ---- */

static void *wait_for_file(void *arg)
{
	const uint64_t one = 1;
	struct ib *ib = arg;

	while (!sem_wait(&ib->go) && !ib->stop) {
		/* What is under way may time out. */
		while (umad_poll(ib->fd, WAIT_MS) && !ib->busy && !ib->stop)
			;
		if (write(ib->event, &one, sizeof(one)) < 0)
			break;
	}
	return NULL;
}

int ib_arm(struct fabric *f, int *fd)
{
	struct ib *ib = ib_of(f);

	*fd = ib->event;
	if (ib->first && ib->under_way < ib->options.window)
		return 0;
	ib->busy = !is_idle(ib);
	if (!ib->polling) {
		ib->polling = true;
		sem_post(&ib->go);
	}
	return 1;
}

int ib_check(struct fabric *f)
{
	struct ib *ib = ib_of(f);
	uint64_t count;

	if (read(ib->event, &count, sizeof(count)) == sizeof(count))
		ib->polling = false;
	return 0;
}

int ib_mad_start(struct ib *ib)
{
	long reports[16 / sizeof(long)] = {1ul << IB_REPORT};

	ib->fd = umad_open_port(ib->ca, ib->port);
	if (ib->fd < 0)
		return -ENODEV;
	ib->smi = umad_register(ib->fd, IB_SUBN, 1, 0, NULL);
	ib->perf = umad_register(ib->fd, IB_PERF, 1, 0, NULL);
	ib->sa = umad_register(ib->fd, IB_SA, 2, 0, reports);
	if (ib->sa < 0) /* sacached has them */
		ib->sa = umad_register(ib->fd, IB_SA, 2, 0, NULL);
	if (ib->smi < 0)
		return -EACCES;
	ib->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ib->out = umad_alloc(1, umad_size() + IB_MAD);
	ib->in = umad_alloc(1, umad_size() + IB_MAD);
	ib->flights = calloc(ib->options.window, sizeof(*ib->flights));
	ib->last = &ib->first;
	if (ib->event < 0 || !ib->out || !ib->in || !ib->flights)
		return -ENOMEM;
	for (unsigned i = 0; i < ib->options.window; i++)
		ib->flights[i].next = i + 1;
	sem_init(&ib->go, 0, 0);
	ib->started = !pthread_create(&ib->waiter, NULL, wait_for_file, ib);
	return ib->started ? 0 : -ENOMEM;
}

static void drop(struct ib_ask *ask)
{
	struct ib_op *op = ask->op;

	while (op->first) {
		struct ib_ask *next = op->first->next;

		op->open--;
		free(op->first->data);
		free(op->first);
		op->first = next;
	}
	free(ask->data);
	free(ask);
	if (!--op->open)
		free(op);
}

void ib_mad_stop(struct ib *ib)
{
	if (ib->started) {
		ib->stop = true;
		sem_post(&ib->go);
		pthread_join(ib->waiter, NULL);
	}
	for (unsigned i = 0; ib->flights && i < ib->options.window; i++)
		if (ib->flights[i].ask)
			drop(ib->flights[i].ask);
	while (ib->first) {
		struct ib_ask *next = ib->first->next;

		drop(ib->first);
		ib->first = next;
	}
	while (ib->pauses) {
		struct ib_op *next = ib->pauses->next;

		free(ib->pauses);
		ib->pauses = next;
	}
	if (ib->fd >= 0)
		umad_close_port(ib->fd);
	if (ib->event >= 0)
		close(ib->event);
	if (ib->out)
		umad_free(ib->out);
	if (ib->in)
		umad_free(ib->in);
	free(ib->flights);
}
