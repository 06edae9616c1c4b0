/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A model of a machine in a process of its own, as thsim is one, for the tests of what manages it:
 * begin(), connect_to(), …, end(). One at a time; included once by each test program.
 */
#ifndef INBAND_WORLD_H
#define INBAND_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inband/manage/discover.h"
#include "inband/manage/th2.h"
#include "inband/sim/serve.h"

struct world {
	const char *machine, *faults;
	unsigned servers, credits;
	uint64_t seed;
	bool routes;
};

static char path[64];
static pid_t child;
static struct machine *plan;

/* In the child: what thsim's main() does. */
static void simulate(const struct world *w, const struct machine *machine)
{
	struct sim_config config = {
		.credits = w->credits ?: 4, .nma_fifo = 8, .nma_output = 4, .seed = w->seed};
	struct broken *broken = NULL;
	unsigned count = 0;
	char error[256];
	struct sim *sim;
	sigset_t set;

	sim_times_default(&config.times);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (sim_create(machine, &config, &sim) || (w->routes && walk_fill(sim)) ||
	    (w->faults && fault_apply(sim, w->faults, &broken, &count, error, sizeof(error))))
		_exit(1);
	_exit(serve(sim, path, signalfd(-1, &set, 0), broken, count) ? 1 : 0);
}

static inline void begin(struct world w)
{
	char error[256], line[128];
	int out[2];
	FILE *said;

	assert_int_equal(machine_load(w.machine, w.servers ?: 1, &plan, error, sizeof(error)), 0);
	snprintf(path, sizeof(path), "/tmp/inband-test-%d.sock", getpid());
	assert_int_equal(pipe(out), 0);
	fflush(NULL);
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(out[1], 1);
		close(out[0]);
		simulate(&w, plan);
	}
	close(out[1]);
	said = fdopen(out[0], "r");
	assert_non_null(fgets(line, sizeof(line), said));
	assert_non_null(strstr(line, "ready"));
	fclose(said);
}

static inline void end(void)
{
	int status;

	kill(child, SIGTERM);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	machine_destroy(plan);
}

/* tries: of each request; 0: as many as by default. */
static inline struct fabric *connect_trying(unsigned nic, unsigned window, unsigned tries)
{
	struct th2_options options;
	struct fabric *fabric;

	th2_options_init(&options);
	options.path = path;
	options.nic = nic;
	options.requester.window = window;
	if (tries)
		options.requester.tries = tries;
	assert_int_equal(th2_create(&options, &fabric), 0);
	return fabric;
}

static inline struct fabric *connect_to(unsigned nic, unsigned window)
{
	return connect_trying(nic, window, 0);
}

static inline struct model *find_all(struct fabric *fabric, struct discovery_result *result)
{
	struct discovery_result own;
	struct model *model;

	assert_int_equal(discover(fabric, &model, result ?: &own), 0);
	return model;
}

#endif
