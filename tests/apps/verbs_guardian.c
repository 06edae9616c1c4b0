/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that connects two QPs, and with them gets a guardian for its host segment, notices
 * nothing of it: not by wait(), not by a signal, not by a descriptor that a pipe's reader would
 * wait for.
 */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "verbs_test.h"

static volatile sig_atomic_t children;

static void on_child(int signal)
{
	children++;
}

/* The process of that name, of any parent; 0: there is none. */
static int find(const char *name)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int pid = 0;

	NEED(d);
	while ((e = readdir(d)) && !pid) {
		char path[300], comm[64] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = atoi(e->d_name) ? fopen(path, "r") : NULL;
		if (f && fgets(comm, sizeof(comm), f) && !strncmp(comm, name, strlen(name)))
			pid = atoi(e->d_name);
		if (f)
			fclose(f);
	}
	closedir(d);
	return pid;
}

static void unnoticed(void)
{
	struct setup s = {.type = IBV_QPT_RC};
	double until = seconds() + 10;
	struct end a, b;
	int ends[2], pid;
	char byte;

	NEED(!pipe(ends));
	make_pair(&a, &b, &s);
	while (!(pid = find("urxe-guardian")) && seconds() < until)
		usleep(1000);
	NEED(pid);
	EXPECT(waitpid(-1, NULL, WNOHANG), -1);
	EXPECT(errno, ECHILD);
	EXPECT(children, 0);
	EXPECT_TRUE(getsid(pid) == pid);
	EXPECT_TRUE(getpgid(pid) != getpgid(0));
	/* Nobody else has the writing end. */
	close(ends[1]);
	EXPECT(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	free_end(&a);
	free_end(&b);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {{"unnoticed", unnoticed}};

	signal(SIGCHLD, on_child);
	return run_cases(cases, 1, argc, argv);
}
