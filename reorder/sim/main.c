/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fabric-sim: packet-level comparison of load balancing for RDMA. Each run is a process of its own,
 * as many at a time as there are processors; results come back through pipes and are shown in the
 * order of the sweep.
 */
#include "common/command.h"
#include "reorder/sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
	struct options options;
	pid_t pid;
	int pipe;
};

/* Methods without reorder queues are not run again for each number of them. */
static bool has_queues(const char *method)
{
	return !strcmp(method, "conweave") || !strcmp(method, "shared");
}

static struct job *make_jobs(const struct options *o, unsigned *n)
{
	unsigned most = o->lbs * o->workloads * o->loads * o->seeds * o->queue_counts;
	struct job *jobs = calloc(most ? most : 1, sizeof(*jobs));

	*n = 0;
	if (!jobs)
		exit(1);
	for (unsigned w = 0; w < o->workloads; w++)
		for (unsigned load = 0; load < o->loads; load++)
			for (unsigned lb = 0; lb < o->lbs; lb++)
				for (unsigned q = 0; q < o->queue_counts; q++)
					for (unsigned seed = 0; seed < o->seeds; seed++) {
						struct options *one = &jobs[*n].options;

						if (q && !has_queues(o->lb[lb]))
							continue;
						*one = *o;
						one->traffic = o->flow_file ? o->flow_file
									    : o->workload[w];
						one->load = o->load_list[load];
						one->method = o->lb[lb];
						one->queues = has_queues(o->lb[lb])
								      ? o->queue_list[q]
								      : 0;
						one->seed = o->seed_list[seed];
						++*n;
					}
	return jobs;
}

static int start(struct job *job)
{
	int fds[2];
	struct result result;

	if (pipe(fds))
		return -errno;
	fflush(NULL);
	job->pid = fork();
	if (job->pid < 0)
		return -errno;
	if (job->pid) {
		close(fds[1]);
		job->pipe = fds[0];
		return 0;
	}
	close(fds[0]);
	if (run(&job->options, &result))
		_exit(1);
	_exit(write(fds[1], &result, sizeof(result)) == sizeof(result) ? 0 : 1);
}

static int collect(struct job *job, struct result *result)
{
	int status;
	ssize_t got;

	do
		got = read(job->pipe, result, sizeof(*result));
	while (got < 0 && errno == EINTR);
	close(job->pipe);
	while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (got == sizeof(*result) && WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	if (WIFSIGNALED(status))
		fprintf(stderr, "fabric-sim: %s %s ended by signal %d\n", job->options.method,
			job->options.traffic, WTERMSIG(status));
	return -EIO;
}

static int run_all(struct job *jobs, unsigned n, unsigned parallel, struct result *results)
{
	unsigned started = 0, bad = 0;

	for (unsigned i = 0; i < n; i++) {
		while (started < n && started < i + parallel) {
			int ret = start(&jobs[started]);

			if (ret) {
				fprintf(stderr, "fabric-sim: %s\n", strerror(-ret));
				return ret;
			}
			started++;
		}
		if (collect(&jobs[i], &results[i]))
			return -EIO;
		if (!results[i].broken[0])
			continue;
		bad++;
		fprintf(stderr, "fabric-sim: %s %s %u %% seed %u: %s\n", results[i].method,
			results[i].traffic, results[i].load, results[i].seed, results[i].broken);
	}
	return bad ? -EIO : 0;
}

int main(int argc, char **argv)
{
	struct options o;
	struct result *results;
	struct job *jobs;
	unsigned n;
	int ret;

	command_begin();
	if (argc > 1 && !strcmp(argv[1], "mg1")) {
		options_parse(&o, argc - 1, argv + 1);
		return mg1(&o) ? 1 : 0;
	}
	options_parse(&o, argc, argv);
	jobs = make_jobs(&o, &n);
	if (o.jobs_only) {
		for (unsigned i = 0; i < n; i++)
			options_print_jobs(&jobs[i].options, argv[0]);
		free(jobs);
		return 0;
	}
	if (o.fct_file && n > 1) {
		fprintf(stderr, "fabric-sim: --fct is for one run, and these are %u\n", n);
		return 2;
	}
	results = calloc(n ? n : 1, sizeof(*results));
	if (!results)
		return 1;
	ret = run_all(jobs, n, o.jobs, results);
	if (!ret || ret == -EIO) {
		if (o.json)
			report_json(&o, results, n);
		else
			report_tables(&o, results, n);
		if (o.plot && plot_fct(&o, results, n))
			ret = -EIO;
	}
	free(results);
	free(jobs);
	return ret ? 1 : 0;
}
