/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A TCP program that knows nothing of RDMA: an HTTP server that gives its one file to whoever asks,
 * so many times: rdmacm_http FILE TIMES. It listens on port 8080 of 127.0.0.1. With librspreload
 * its sockets are rsockets.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static int listen_on(uint16_t port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 8))
		die("listen");
	return fd;
}

static void send_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = send(fd, data, len, 0);

		if (n <= 0)
			die("send");
		data += n;
		len -= n;
	}
}

static void receive_request(int fd)
{
	char buf[8192];
	size_t have = 0;
	ssize_t n;

	do {
		n = recv(fd, buf + have, sizeof(buf) - 1 - have, 0);
		if (n <= 0)
			die("recv");
		have += n;
		buf[have] = '\0';
	} while (!strstr(buf, "\r\n\r\n"));
}

static void give(int fd, const char *file)
{
	int from = open(file, O_RDONLY);
	struct stat st;
	char head[128], *data;

	if (from < 0 || fstat(from, &st))
		die(file);
	data = malloc(st.st_size);
	if (!data || read(from, data, st.st_size) != st.st_size)
		die("read");
	close(from);
	snprintf(head, sizeof(head),
		 "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
		 (size_t)st.st_size);
	send_all(fd, head, strlen(head));
	send_all(fd, data, st.st_size);
	free(data);
}

static void serve(int fd, const char *file)
{
	receive_request(fd);
	give(fd, file);
	shutdown(fd, SHUT_RDWR);
	close(fd);
}

int main(int argc, char **argv)
{
	int fd, times = argc == 3 ? atoi(argv[2]) : 0;

	if (times < 1) {
		fprintf(stderr, "usage: rdmacm_http FILE TIMES\n");
		return 2;
	}
	fd = listen_on(8080);
	while (times--) {
		int peer = accept(fd, NULL, NULL);

		if (peer < 0)
			die("accept");
		serve(peer, argv[1]);
	}
	close(fd);
	return 0;
}
