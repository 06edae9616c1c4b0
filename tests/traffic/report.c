/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the user reads: the first mismatch, the state of each QP after a hang, the summary line.
 * Any thread may fail(), which ends the process; the watchdog is a thread of its own and reads the
 * workers' state without asking them, since they may hang.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "traffic.h"

#define MAX_WATCHED 2

static struct end *watched[MAX_WATCHED];
static atomic_uint num_watched;

double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

void fail(const struct qp *qp, const char *fmt, ...)
{
	char text[1000];
	int n = 0;
	va_list ap;

	if (qp)
		n = snprintf(text, sizeof(text), "traffic: %s, pair %u, QP %u (%#x): ",
			     qp->worker->end->side ? "server" : "client", qp->worker->end->pair,
			     qp->q, qp->qp ? qp->qp->qp_num : 0);
	else
		n = snprintf(text, sizeof(text), "traffic: ");
	va_start(ap, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, ap);
	va_end(ap);
	fprintf(stderr, "%s\n", text);
	_exit(FATAL_STATUS);
}

void fail_errno(const char *what, int err)
{
	fail(NULL, "%s: %s", what, strerror(err));
}

void fail_byte(const struct qp *qp, const struct op *op, const char *where, uint64_t off,
	       uint8_t expected, uint8_t found)
{
	fail(qp, "%s of %u bytes, %s: byte %llu is %#04x, expected %#04x", kind_names[op->kind],
	     op->len, where, (unsigned long long)off, found, expected);
}

void watch(struct end *end)
{
	unsigned n = atomic_load(&num_watched);

	if (n == MAX_WATCHED)
		return;
	watched[n] = end;
	atomic_store(&num_watched, n + 1);
}

static void dump_qp(const struct qp *qp)
{
	const struct initiator *in = &qp->in;
	const struct target *tg = &qp->tg;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {0};

	if (!qp->qp)
		return;
	ibv_query_qp(qp->qp, &attr, IBV_QP_STATE, &init);
	fprintf(stderr,
		"  QP %u (%#x) state %d: sends round %u op %u of %u, posted %llu, completed %llu, "
		"grants %d %d%s; receives round %u of %u opened, message %u of %u, posted %u%s%s\n",
		qp->q, qp->qp->qp_num, attr.qp_state, in->round.number, in->next, in->round.n,
		(unsigned long long)in->posted, (unsigned long long)in->completed,
		in->grants[0].given, in->grants[1].given,
		in->marking ? ", marking"
		: in->done  ? ", done"
			    : "",
		tg->current, tg->opened, tg->arrived, tg->rounds[tg->current % ROUNDS].messages,
		tg->post_tail - tg->post_head, tg->finished ? ", finished" : "",
		tg->peer_done ? ", peer done" : "");
}

static void *watchdog(void *arg)
{
	unsigned seconds = *(unsigned *)arg, e, w, q;

	while (seconds)
		seconds = sleep(seconds);
	for (e = 0; e < num_watched; e++) {
		fprintf(stderr, "traffic: no end within the time limit; %s, pair %u:\n",
			watched[e]->side ? "server" : "client", watched[e]->pair);
		for (w = 0; w < watched[e]->cfg.threads; w++)
			for (q = 0; q < watched[e]->workers[w].nqps; q++)
				dump_qp(&watched[e]->workers[w].qps[q]);
	}
	_exit(HANG_STATUS);
	return NULL;
}

void watchdog_start(unsigned seconds)
{
	static unsigned limit;
	pthread_t thread;

	limit = seconds;
	if (seconds && !pthread_create(&thread, NULL, watchdog, &limit))
		pthread_detach(thread);
}

void report(const struct end *end, double seconds)
{
	static const char *const types[] = {
		[IBV_QPT_RC] = "rc", [IBV_QPT_UC] = "uc", [IBV_QPT_UD] = "ud"};
	char kinds[300] = "";
	unsigned k, n = 0;

	for (k = 0; k < ALL_KINDS; k++)
		if (end->kinds[k])
			n += snprintf(kinds + n, sizeof(kinds) - n, " %s=%llu", kind_names[k],
				      (unsigned long long)end->kinds[k]);
	printf("traffic: OK %s %s pair=%u qps=%u ops=%llu bytes=%llu messages=%llu lost=%llu "
	       "late=%llu "
	       "duplicates=%llu seconds=%.2f%s\n",
	       end->side ? "server" : "client", types[end->cfg.qp_type], end->pair, end->cfg.qps,
	       (unsigned long long)end->ops, (unsigned long long)end->bytes,
	       (unsigned long long)end->messages, (unsigned long long)end->lost,
	       (unsigned long long)end->late, (unsigned long long)end->duplicates, seconds, kinds);
	fflush(stdout);
}
