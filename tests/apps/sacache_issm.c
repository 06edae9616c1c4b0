/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded, before ibsim's umad front, into a program that subscribes to the SA's notices: ibsim
 * brings requests, and the SA's reports are some, only to a client that is a subnet manager. So
 * when the program has registered for the SA's class, its port says that there is an SM (the issm
 * device), and a thread answers what another SM asks that one: SMInfo, by "not active" (IBTA vol.
 * 1, 14.4.1). Agents are registered first: ibsim's front does not survive a MAD of a class that
 * nobody has.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/umad.h>

enum { CLASS_SMP = 1, CLASS_SA = 3, CLASS_DIRECTED = 0x81, MAD_SIZE = 256 };
enum { GET = 1, GET_RESP = 0x81, SMINFO = 0x20, DIRECTION = 0x80 };

static int issm = -1, fd = -1, agents[2];
static umad_port_t port;
static _Atomic bool stop;
static pthread_t thread;

static void answer(uint8_t *umad)
{
	uint8_t *mad = umad_get_mad(umad);

	if (mad[3] != GET || mad[16] || mad[17] != SMINFO)
		return;
	mad[3] = GET_RESP;
	memset(mad + 64, 0, 64);
	memcpy(mad + 64, &port.port_guid, 8);
	if (mad[1] == CLASS_DIRECTED)
		mad[4] |= DIRECTION;
	umad_send(fd, agents[mad[1] == CLASS_DIRECTED], umad, MAD_SIZE, 0, 0);
}

static void *answer_all(void *arg)
{
	static uint8_t umad[1024];

	while (!atomic_load(&stop)) {
		int length = MAD_SIZE;

		memset(umad, 0, sizeof(umad));
		if (umad_recv(fd, umad, &length, 50) >= 0)
			answer(umad);
	}
	return NULL;
}

static void become_sm(void)
{
	int (*real_open)(const char *path, int flags, ...) = dlsym(RTLD_DEFAULT, "open");
	char path[256];

	if (umad_get_port(NULL, 0, &port))
		return;
	fd = umad_open_port(port.ca_name, port.portnum);
	agents[0] = umad_register(fd, CLASS_SMP, 1, 0, NULL);
	agents[1] = umad_register(fd, CLASS_DIRECTED, 1, 0, NULL);
	if (fd < 0 || pthread_create(&thread, NULL, answer_all, NULL) ||
	    umad_get_issm_path(port.ca_name, port.portnum, path, sizeof(path)))
		return;
	issm = real_open(path, O_NONBLOCK);
}

static void be_no_sm(void)
{
	int (*real_close)(int) = dlsym(RTLD_DEFAULT, "close");

	real_close(issm);
	issm = -1;
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
}

#pragma GCC visibility push(default)

int umad_register(int portid, int mgmt_class, int version, uint8_t rmpp,
		  long mask[16 / sizeof(long)])
{
	int (*next)(int, int, int, uint8_t, long *) = dlsym(RTLD_NEXT, "umad_register");
	int agent = next(portid, mgmt_class, version, rmpp, mask);

	if (mgmt_class == CLASS_SA && mask && agent >= 0 && issm < 0)
		become_sm();
	return agent;
}

int umad_unregister(int portid, int agent)
{
	int (*next)(int, int) = dlsym(RTLD_NEXT, "umad_unregister");

	if (issm >= 0)
		be_no_sm();
	return next(portid, agent);
}
