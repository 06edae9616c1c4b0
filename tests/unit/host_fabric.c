// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * What a process believes of the map that it is given with a fabric's welcome. A thread plays
 * fabricd.
 */
#include "host_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "host/fabric.h"
#include "host/libc.h"

#define NODES 2
#define PORTS 4

struct map {
	struct fabric_map head;
	struct fabric_node nodes[NODES];
	struct fabric_port ports[PORTS];
};

/* What is wrong with the map, or with the welcome. */
static const struct row {
	const char *name;
	void (*spoil)(struct map *map);
	size_t cut; /* bytes that the file lacks */
	int seals;
	uint32_t adapter;
	bool taken;
} rows[];

static const struct row *row;
static int listener;

static void send_welcome(int sock, int fd)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct fabric_welcome welcome = {.num_adapters = 1, .adapters = {row->adapter}};
	struct iovec iov = {&welcome, sizeof(welcome)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	CHECK(sendmsg(sock, &msg, 0) == sizeof(welcome));
}

static void *fabricd(void *arg)
{
	struct map map = {.head = {.magic = FABRIC_MAP_MAGIC,
				   .size = sizeof(map),
				   .alive = 1,
				   .num_nodes = NODES,
				   .num_ports = PORTS,
				   .nodes = offsetof(struct map, nodes),
				   .ports = offsetof(struct map, ports)}};
	int sock = accept(listener, NULL, NULL), fd;
	struct fabric_hello hello;

	map.nodes[NODES - 1].host = 7;
	CHECK(recv(sock, &hello, sizeof(hello), 0) == sizeof(hello));
	if (row->spoil)
		row->spoil(&map);
	fd = memfd_create("map", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	CHECK(write(fd, &map, sizeof(map) - row->cut) == (ssize_t)(sizeof(map) - row->cut));
	CHECK(!fcntl(fd, F_ADD_SEALS, row->seals));
	send_welcome(sock, fd);
	close(fd);
	recv(sock, &hello, sizeof(hello), 0); /* until it closes */
	close(sock);
	return NULL;
}

static void attach(void *arg)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct urxe_fabric_host *host;
	pthread_t thread;

	row = arg;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/fabric", host_test_dir);
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	CHECK(!bind(listener, (struct sockaddr *)&address, sizeof(address)));
	CHECK(!listen(listener, 8));
	setenv("URXE_FABRIC", address.sun_path, 1);
	CHECK(!pthread_create(&thread, NULL, fabricd, NULL) && !pthread_detach(thread));
	if (!row->taken && !freopen("/dev/null", "w", stderr))
		_exit(2);
	host = urxe_fabric_host();
	CHECK(!host == !row->taken);
	if (host)
		CHECK(fabric_map_node(host->map, host->adapters[0])->host == 7);
}

static void other_magic(struct map *map)
{
	map->head.magic++;
}

static void longer(struct map *map)
{
	map->head.size += 1 << 20;
}

static void empty(struct map *map)
{
	map->head.size = 0;
}

static void many_nodes(struct map *map)
{
	map->head.num_nodes = 1 << 20;
}

static void many_ports(struct map *map)
{
	map->head.num_ports++;
}

static void nodes_elsewhere(struct map *map)
{
	map->head.nodes = UINT64_MAX - 8;
}

static const struct row rows[] = {
	{"whole", NULL, 0, F_SEAL_SHRINK, NODES - 1, true},
	{"cut in the tables", NULL, sizeof(struct fabric_port), F_SEAL_SHRINK, NODES - 1, false},
	{"cut in the header", NULL, sizeof(struct map) - 16, F_SEAL_SHRINK, NODES - 1, false},
	{"empty", NULL, sizeof(struct map), F_SEAL_SHRINK, NODES - 1, false},
	{"may become shorter", NULL, 0, F_SEAL_GROW, NODES - 1, false},
	{"another kind of file", other_magic, 0, F_SEAL_SHRINK, NODES - 1, false},
	{"a size beyond the file", longer, 0, F_SEAL_SHRINK, NODES - 1, false},
	{"a size of 0", empty, 0, F_SEAL_SHRINK, NODES - 1, false},
	{"nodes beyond the file", many_nodes, 0, F_SEAL_SHRINK, NODES - 1, false},
	{"ports beyond the file", many_ports, 0, F_SEAL_SHRINK, NODES - 1, false},
	{"nodes that are nowhere", nodes_elsewhere, 0, F_SEAL_SHRINK, NODES - 1, false},
	{"an adapter that is none", NULL, 0, F_SEAL_SHRINK, NODES, false},
};

static void test_map(void **state)
{
	unsigned wrong = 0;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int status = host_test_wait(host_test_fork(attach, (void *)&rows[i]));

		if (status) {
			printf("# %s: status %#x\n", rows[i].name, status);
			wrong++;
		}
	}
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_map)};

	urxe_libc_init();
	return cmocka_run_group_tests(tests, host_test_dir_make, host_test_dir_remove);
}
