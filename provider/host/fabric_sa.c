// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The process's connections to the subnet administrator (fabric_sa.h): one for each port that has
 * asked, with one agent. lock guards them: one thread asks and another one reads.
 */
#include "host/fabric_sa.h"

#include <errno.h>
#include <pthread.h>
#include <rdma/ib_user_mad.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "fabric/mad.h"
#include "host/fabric.h"
#include "host/fabric_device.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/mutex.h"

#define RETRIES	   10 /* within the time, as the kernel's */
#define PATIENCE_S 1  /* with a fabricd that takes nothing */

static URXE_MUTEX(lock);
static struct {
	_Atomic int fd; /* 0: none. Read without the lock to see that there is none. */
	uint32_t agent;
} connections[URXE_MAX_PORTS];
static urxe_sa_answer_fn *answer_fn;

void urxe_fabric_sa_handler(urxe_sa_answer_fn *fn)
{
	answer_fn = fn;
}

/* ---- connections ---- */

static void disconnect(unsigned index)
{
	if (connections[index].fd)
		urxe_fd_close(connections[index].fd);
	connections[index].fd = 0;
}

static int connect_port(const struct urxe_port *port)
{
	struct fabric_request agent = {.command = FABRIC_REGISTER,
				       .id = FABRIC_AGENTS,
				       .qpn = 1,
				       .mgmt_class = CLASS_SA,
				       .class_version = 2};
	uint32_t at = __atomic_load_n(&port->fabric_port, __ATOMIC_RELAXED);
	struct timeval patience = {.tv_sec = PATIENCE_S};
	struct fabric_welcome welcome;
	struct fabric_reply reply;
	int fd, ret;

	if (connections[port->index].fd)
		return 0;
	fd = urxe_fabric_connect(FABRIC_SA, at, -1, &welcome, NULL);
	if (fd < 0)
		return -ENODEV;
	agent.cookie = welcome.cookie;
	ret = urxe_fabric_request(&agent, &reply);
	if (!ret)
		ret = -reply.error;
	if (ret) {
		urxe_fd_close(fd);
		return ret;
	}
	urxe_libc.setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	connections[port->index].agent = reply.id;
	connections[port->index].fd = fd;
	urxe_fabric_monitor_watch(fd);
	return 0;
}

/* ---- asking ---- */

struct umad {
	struct ib_user_mad_hdr hdr;
	uint8_t mad[MAD_LEN];
};
_Static_assert(sizeof(struct umad) == FABRIC_INLINE, "as the protocol has it");

static void make_mad(uint8_t mad[MAD_LEN], const struct urxe_sa_question *q)
{
	mad[MAD_BASE_VERSION] = 1;
	mad[MAD_CLASS] = CLASS_SA;
	mad[MAD_CLASS_VERSION] = 2;
	mad[MAD_METHOD] = q->method;
	put64(mad + MAD_TID, q->number);
	put16(mad + MAD_ATTR, q->attribute);
	put64(mad + SA_COMP_MASK, q->mask);
	memcpy(mad + SA_DATA, q->record, SA_DATA_LEN);
}

int urxe_fabric_sa_ask(const struct urxe_port *port, const struct urxe_sa_question *q)
{
	struct umad umad = {
		.hdr.timeout_ms = q->timeout_ms / RETRIES ? q->timeout_ms / RETRIES : 1,
		.hdr.retries = RETRIES,
		.hdr.qpn = htobe32(1),
		.hdr.qkey = htobe32(GSI_QKEY),
	};
	uint16_t sm_lid;
	int ret;

	urxe_device_lock();
	sm_lid = port->sm_lid;
	umad.hdr.sl = port->sm_sl;
	urxe_device_unlock();
	if (!sm_lid)
		return -EAGAIN;
	umad.hdr.lid = htobe16(sm_lid);
	make_mad(umad.mad, q);
	pthread_mutex_lock(&lock);
	ret = connect_port(port);
	if (!ret) {
		umad.hdr.id = connections[port->index].agent;
		if (urxe_libc.sendto(connections[port->index].fd, &umad, sizeof(umad), MSG_NOSIGNAL,
				     NULL, 0) < 0)
			ret = errno == EAGAIN ? -EAGAIN : -ENODEV;
	}
	pthread_mutex_unlock(&lock);
	return ret;
}

/* ---- answers ---- */

static void answered(const struct urxe_port *port, const struct umad *umad)
{
	uint32_t number = get64(umad->mad + MAD_TID);
	int error = 0;

	if (umad->hdr.status)
		error = -(int)umad->hdr.status;
	else if (get16(umad->mad + MAD_STATUS))
		error = -EINVAL;
	answer_fn(port, number, error, umad->mad + SA_DATA);
}

/* One datagram: 1, 0 when there is none, -1 at the end of the connection. */
static int take(unsigned index, struct umad *umad)
{
	ssize_t n = 0;

	pthread_mutex_lock(&lock);
	if (connections[index].fd) {
		n = urxe_libc.recv(connections[index].fd, umad, sizeof(*umad), MSG_DONTWAIT);
		if (!n || (n < 0 && errno != EAGAIN && errno != EINTR)) {
			disconnect(index);
			n = -2;
		}
	}
	pthread_mutex_unlock(&lock);
	return n == -2 ? -1 : n > 0;
}

void urxe_fabric_sa_read(void)
{
	struct umad umad;

	for (unsigned i = 0; i < URXE_MAX_PORTS; i++) {
		const struct urxe_port *port = urxe_port(i);
		int got = 0;

		if (!port || !connections[i].fd)
			continue;
		while (memset(&umad, 0, sizeof(umad)), (got = take(i, &umad)) > 0)
			answered(port, &umad);
		if (got < 0)
			answer_fn(port, URXE_SA_ALL, -ETIMEDOUT, NULL);
	}
}

void urxe_fabric_sa_close(void)
{
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < URXE_MAX_PORTS; i++)
		disconnect(i);
	pthread_mutex_unlock(&lock);
}
