/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Roles: a server or a client in this process, both of them (--self), or pairs of processes
 * (--procs). The main thread starts the workers of an end and waits for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "traffic.h"

static struct end *new_end(const struct options *opt, unsigned side, unsigned pair)
{
	struct end *end = calloc(1, sizeof(*end));

	if (!end)
		fail(NULL, "out of memory");
	end->opt = opt;
	end->cfg = opt->cfg;
	end->cfg.seed += pair * 1000003ull;
	end->side = side;
	end->pair = pair;
	watch(end);
	return end;
}

static void *run_end(void *arg)
{
	struct end *end = arg;
	double start = seconds_now();
	unsigned i;
	int err;

	for (i = 0; i < end->cfg.threads; i++) {
		struct worker *w = &end->workers[i];

		w->end = end;
		w->index = i;
		w->fd = end->fds[i];
		err = pthread_create(&w->thread, NULL, worker_run, w);
		if (err)
			fail_errno("pthread_create", err);
	}
	for (i = 0; i < end->cfg.threads; i++)
		pthread_join(end->workers[i].thread, NULL);
	verify_end(end);
	end_close(end);
	report(end, seconds_now() - start);
	for (i = 0; i < end->cfg.threads; i++)
		free(end->workers[i].qps);
	return NULL;
}

static void serve(const struct options *opt, unsigned pair)
{
	struct end *end = new_end(opt, 1, pair);

	end_listen(end, opt->port + pair);
	end_open(end);
	run_end(end);
}

static void be_client(const struct options *opt, unsigned pair)
{
	struct end *end = new_end(opt, 0, pair);

	end_open(end);
	end_dial(end, opt->host, opt->port + pair);
	run_end(end);
}

static void make_pairs(const struct options *opt, int fds[MAX_THREADS][2])
{
	unsigned i;

	for (i = 0; i < opt->cfg.threads; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds[i]))
			fail(NULL, "socketpair: %m");
}

/* One end over sockets that exist; the other ends of them are closed when they are another's. */
static struct end *end_on(const struct options *opt, unsigned side, unsigned pair,
			  int fds[MAX_THREADS][2], bool alone)
{
	struct end *end = new_end(opt, side, pair);
	unsigned i;

	for (i = 0; i < opt->cfg.threads; i++) {
		end->fds[i] = fds[i][side];
		if (alone)
			close(fds[i][!side]);
	}
	if (side)
		end_be_greeted(end);
	end_open(end);
	if (!side)
		end_greet(end);
	return end;
}

static void both_ends(const struct options *opt, unsigned pair)
{
	struct end *client, *server;
	int fds[MAX_THREADS][2], err;
	pthread_t thread;

	make_pairs(opt, fds);
	client = end_on(opt, 0, pair, fds, false);
	server = end_on(opt, 1, pair, fds, false);
	err = pthread_create(&thread, NULL, run_end, server);
	if (err)
		fail_errno("pthread_create", err);
	run_end(client);
	pthread_join(thread, NULL);
}

static pid_t start(const struct options *opt, unsigned pair, int side, int fds[MAX_THREADS][2])
{
	pid_t pid = fork();

	if (pid < 0)
		fail(NULL, "fork: %m");
	if (pid)
		return pid;
	watchdog_start(opt->time_limit);
	if (opt->self)
		both_ends(opt, pair);
	else if (opt->server)
		serve(opt, pair);
	else if (opt->client)
		be_client(opt, pair);
	else
		run_end(end_on(opt, side, pair, fds, true));
	exit(0);
}

/* The exit status is the worst of the children's. */
static int run_procs(const struct options *opt)
{
	bool alone = opt->self || opt->server || opt->client;
	unsigned n = 0, i, t;
	int worst = 0, status;

	for (i = 0; i < opt->procs; i++) {
		int fds[MAX_THREADS][2];

		if (!alone)
			make_pairs(opt, fds);
		start(opt, i, 0, fds);
		n++;
		if (alone)
			continue;
		start(opt, i, 1, fds);
		n++;
		for (t = 0; t < opt->cfg.threads; t++) {
			close(fds[t][0]);
			close(fds[t][1]);
		}
	}
	while (n-- && wait(&status) > 0) {
		status = WIFEXITED(status) ? WEXITSTATUS(status) : FATAL_STATUS;
		if (status > worst)
			worst = status;
	}
	return worst;
}

int main(int argc, char **argv)
{
	struct options opt;

	options_parse(argc, argv, &opt);
	if (opt.procs)
		return run_procs(&opt);
	watchdog_start(opt.time_limit);
	if (opt.self)
		both_ends(&opt, 0);
	else if (opt.server)
		serve(&opt, 0);
	else
		be_client(&opt, 0);
	return 0;
}
