/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that uses librdmacm: sacached_resolve SOURCE TIMES DESTINATION… (SOURCE - : none).
 *
 * By rdma_getaddrinfo(), from that address to each of the others, so many times; prints for each
 * destination the route: its number of paths, flags, LIDs, or "none". With TIMES 0 it does so for
 * each line that it reads from its input.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void resolve(const char *source, const char *destination)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *got;
	struct sockaddr_in from = {.sin_family = AF_INET};
	char name[64] = "";

	if (inet_pton(AF_INET, source, &from.sin_addr) == 1) {
		hints.ai_src_addr = (struct sockaddr *)&from;
		hints.ai_src_len = sizeof(from);
	}
	if (rdma_getaddrinfo(destination, "7471", &hints, &got)) {
		perror("rdma_getaddrinfo");
		exit(1);
	}
	if (got->ai_src_len && got->ai_src_addr->sa_family == AF_INET)
		inet_ntop(AF_INET, &((struct sockaddr_in *)got->ai_src_addr)->sin_addr, name,
			  sizeof(name));
	if (got->ai_route_len) {
		const struct ibv_path_data *path = got->ai_route;

		printf("%s from %s: %zu path, flags 0x%x, LID %u to %u\n", destination, name,
		       got->ai_route_len / sizeof(*path), path->flags, be16toh(path->path.slid),
		       be16toh(path->path.dlid));
	} else {
		printf("%s from %s: none\n", destination, name);
	}
	fflush(stdout);
	rdma_freeaddrinfo(got);
}

int main(int argc, char **argv)
{
	int times;
	char line[16];

	if (argc < 4)
		return 2;
	times = atoi(argv[2]);
	while (times-- > 0 || (argv[2][0] == '0' && fgets(line, sizeof(line), stdin)))
		for (int i = 3; i < argc; i++)
			resolve(argv[1], argv[i]);
	return 0;
}
