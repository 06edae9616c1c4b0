// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Either side of a connection is killed: the other one's VI goes to Error, its handler is told, and
 * all of its descriptors come back.
 *
 *	vipl_killed [-i] [-l LEVEL] [-c HOST] victim|survivor
 *
 * One of them calls the other, which is at HOST. The survivor kills the victim, whose first message
 * has its process id: while data is under way, or (-i) when both have only receives posted. LEVEL
 * is u, d or r, as vipl_pair has it.
 */
#include <getopt.h>
#include <signal.h>

#include "vipl_test.h"

enum { RECEIVES = 40 };
static struct end end;
static const char *host; /* NULL: this end serves */
static bool idle;
static int lost;

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error)
{
	if (error->ErrorCode == VIP_ERROR_CONN_LOST)
		__atomic_store_n(&lost, 1, __ATOMIC_SEQ_CST);
}

static void meet(void)
{
	create_vi(&end);
	for (int i = 0; i < RECEIVES; i++)
		post_recv(&end, i, 4096);
	if (host)
		NEED(call(&end, host, "killed"), VIP_SUCCESS);
	else
		serve(&end, "killed");
}

/* Says who it is, and answers until somebody ends it. */
static void be_killed(void)
{
	VIP_DESCRIPTOR *d;

	meet();
	*(pid_t *)end.memory->buffers[60] = getpid();
	post_send(&end, 60, 4096);
	sent(&end, 60);
	while (VipRecvWait(end.vi, VIP_INFINITE, &d) == VIP_SUCCESS) {
		NEED(VipPostRecv(end.vi, d, end.handle), VIP_SUCCESS);
		post_send(&end, 60, 4096);
		sent(&end, 60);
	}
}

/* All that are posted come back. */
static void collect(VIP_RETURN (*wait)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR **), int count)
{
	VIP_DESCRIPTOR *d;

	while (count--) {
		NEED(wait(end.vi, LONG_TIME, &d) == VIP_TIMEOUT, 0);
		NEED(d != NULL, 1);
	}
}

static void survive(void)
{
	double limit;
	VIP_DESCRIPTOR *d;
	int taken = 1, sends = idle ? 0 : 4;
	pid_t victim;

	meet();
	received(&end, 0);
	victim = *(pid_t *)end.memory->buffers[0];
	for (; taken < 20 && !idle; taken++) {
		post_send(&end, 50, 4096);
		sent(&end, 50);
		NEED(VipRecvWait(end.vi, LONG_TIME, &d), VIP_SUCCESS);
	}
	kill(victim, SIGKILL);
	for (int i = 0; i < sends; i++)
		post_send(&end, 51 + i, 4096);
	limit = seconds() + LONG_TIME / 1000;
	while (!__atomic_load_n(&lost, __ATOMIC_SEQ_CST) && seconds() < limit)
		usleep(1000);
	EXPECT(lost, 1);
	collect(VipSendWait, sends);
	collect(VipRecvWait, RECEIVES - taken);
	destroy_vi(&end);
}

int main(int argc, char **argv)
{
	static const char levels[] = "udr";
	VIP_RELIABILITY_LEVEL level = VIP_SERVICE_RELIABLE_DELIVERY;
	int option;

	while ((option = getopt(argc, argv, "ic:l:")) != -1) {
		if (option == 'i')
			idle = true;
		else if (option == 'c')
			host = optarg;
		else if (option == 'l' && strchr(levels, *optarg))
			level = 1 << (strchr(levels, *optarg) - levels);
		else
			return 2;
	}
	if (optind == argc)
		return 2;
	current_case = argv[optind];
	open_end(&end, "nic0");
	end.vi_attributes.ReliabilityLevel = level;
	end.vi_attributes.EnableRdmaRead &= level != VIP_SERVICE_UNRELIABLE;
	NEED(VipErrorCallback(end.nic, NULL, on_error), VIP_SUCCESS);
	if (!strcmp(current_case, "survivor"))
		survive();
	else
		be_killed();
	close_end(&end);
	return failures != 0;
}
