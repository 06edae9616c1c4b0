/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Devices that are not ours, in the same process. With OTHER_LIBRARY a libibverbs that has one
 * device of its own, other0, and checks that it gets its own objects back and never one of ours;
 * else a program that uses other0 and urxe0 side by side. The library is preloaded behind urxe.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

#ifdef OTHER_LIBRARY

#undef ibv_get_device_list
#undef ibv_query_port
#define EXPORT __attribute__((visibility("default")))

static struct ibv_device device = {.name = "other0", .node_type = IBV_NODE_CA};
static struct ibv_context context = {.device = &device};
static struct ibv_pd pd = {.context = &context};
static struct ibv_device **given; /* the list in our caller's hands */

/* A failure ends the program: its caller may not notice. */
static void mine(const void *got, const void *expected, const char *what)
{
	if (got == expected)
		return;
	printf("other0 was given a strange %s\n", what);
	exit(1);
}

EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	mine(given, NULL, "call: its list was not freed");
	given = calloc(2, sizeof(*given));
	given[0] = &device;
	if (num)
		*num = 1;
	return given;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	mine(list, given, "list");
	free(given);
	given = NULL;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	mine(d, &device, "device");
	return &context;
}

EXPORT int ibv_close_device(struct ibv_context *c)
{
	mine(c, &context, "context");
	mine(given, NULL, "call: its list was not freed");
	return 0;
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	mine(c, &context, "context");
	return &pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *p)
{
	mine(p, &pd, "PD");
	return 77;
}

EXPORT int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	mine(c, &context, "context");
	((struct ibv_port_attr *)attr)->lid = 0x77;
	return 0;
}

EXPORT int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid)
{
	mine(c, &context, "context");
	errno = 77;
	return -1;
}

#else

static void expect(int truth, const char *what)
{
	if (truth)
		return;
	printf("not so: %s\n", what);
	exit(1);
}

static struct ibv_context *open_by_name(struct ibv_device **list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return ibv_open_device(*list);
	return NULL;
}

int main(void)
{
	struct ibv_context *ours, *other;
	struct ibv_port_attr port;
	struct ibv_device **list;
	struct ibv_pd *pd;
	union ibv_gid gid;
	int n = 0;

	list = ibv_get_device_list(&n);
	expect(list && n == 2 && !list[2], "two devices are listed");
	expect(!strcmp(list[0]->name, "urxe0"), "ours is the first");
	ours = open_by_name(list, "urxe0");
	other = open_by_name(list, "other0");
	expect(ours && other, "both can be opened");
	ibv_free_device_list(list);

	pd = ibv_alloc_pd(other);
	expect(pd && pd->context == other, "the other device makes its own PD");
	expect(ibv_dealloc_pd(pd) == 77, "and its result comes back");
	expect(!ibv_query_port(other, 1, &port) && port.lid == 0x77, "its port is queried");
	errno = 0;
	expect(ibv_query_gid(other, 1, 0, &gid) == -1 && errno == 77, "errno comes back");

	pd = ibv_alloc_pd(ours);
	expect(pd && pd->context == ours, "our device makes its PD");
	expect(!ibv_dealloc_pd(pd), "and gives it up");
	expect(!ibv_query_port(ours, 1, &port) && port.state == IBV_PORT_ACTIVE, "our port is up");
	expect(!ibv_query_gid(ours, 1, 0, &gid), "and has a GID");
	expect(!ibv_close_device(ours) && !ibv_close_device(other), "both can be closed");

	/* A second list, without asking for the number. */
	ibv_free_device_list(ibv_get_device_list(NULL));
	puts("ok");
	return 0;
}

#endif
