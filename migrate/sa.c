// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Questions to the subnet administrator: SubnAdmGet of NodeRecord (15.2.5.2), PortInfoRecord
 * (15.2.5.3) and P_KeyTableRecord (15.2.5.11). A port that went away and came back is opened anew.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/umad.h>

#include "migrate/sa.h"

#define MAD_SIZE	 256
#define SA_CLASS	 3
#define SA_CLASS_VERSION 2
#define QP1_QKEY	 0x80010000
#define GET		 0x01
#define GET_TABLE	 0x12
#define GET_RESP	 0x81
#define GET_TABLE_RESP	 0x92
#define TIMEOUT_MS	 500
#define RETRIES		 3
#define DATA		 56 /* of an SA MAD */

enum {
	NODE_RECORD = 0x11,
	PORT_INFO_RECORD = 0x12,
	SWITCH_INFO_RECORD = 0x14,
	PKEY_TABLE_RECORD = 0x33
};
enum { NODE_PORT_GUID = 1 << 8 }; /* component masks */
enum { PORT_LID = 1 << 0, PORT_NUM = 1 << 1 };
enum { PKEY_LID = 1 << 0, PKEY_BLOCK = 1 << 1, PKEY_PORT = 1 << 2 };

void sa_init(struct sa *sa, const char *ca, int port, uint64_t key)
{
	memset(sa, 0, sizeof(*sa));
	pthread_mutex_init(&sa->lock, NULL);
	snprintf(sa->ca, sizeof(sa->ca), "%s", ca);
	sa->port = port;
	sa->key = key;
	sa->fd = sa->agent = -1;
}

static void close_port(struct sa *sa)
{
	if (sa->agent >= 0)
		umad_unregister(sa->fd, sa->agent);
	if (sa->fd >= 0)
		umad_close_port(sa->fd);
	sa->fd = sa->agent = -1;
}

void sa_destroy(struct sa *sa)
{
	close_port(sa);
	pthread_mutex_destroy(&sa->lock);
}

static int open_port(struct sa *sa)
{
	if (sa->fd >= 0)
		return 0;
	sa->fd = umad_open_port(sa->ca[0] ? sa->ca : NULL, sa->port);
	if (sa->fd < 0)
		return -ENODEV;
	sa->agent = umad_register(sa->fd, SA_CLASS, SA_CLASS_VERSION, 1, NULL);
	if (sa->agent >= 0)
		return 0;
	close_port(sa);
	return -EIO;
}

/* ---- one question ---- */

static void put16(uint8_t *p, uint16_t v)
{
	v = htobe16(v);
	memcpy(p, &v, 2);
}

static void put64(uint8_t *p, uint64_t v)
{
	v = htobe64(v);
	memcpy(p, &v, 8);
}

static uint16_t get16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

static void make_mad(struct sa *sa, uint8_t *mad, uint8_t method, uint16_t attribute, uint64_t mask,
		     const uint8_t *record, size_t len)
{
	memset(mad, 0, MAD_SIZE);
	mad[0] = 1;
	mad[1] = SA_CLASS;
	mad[2] = SA_CLASS_VERSION;
	mad[3] = method;
	put64(mad + 8, ++sa->tid);
	put16(mad + 16, attribute);
	put64(mad + 36, sa->key);
	put64(mad + 48, mask);
	memcpy(mad + DATA, record, len);
}

/* 0, -ENOENT, or another error by which nothing is known. */
static int judge(const uint8_t *mad)
{
	uint16_t status = get16(mad + 4);

	if (mad[3] != GET_RESP && mad[3] != GET_TABLE_RESP)
		return -EPROTO;
	if (status == 0x0300) /* ERR_NO_RECORDS */
		return -ENOENT;
	return status ? -EREMOTEIO : 0;
}

static int sm_of(struct sa *sa, uint16_t *lid, uint8_t *sl)
{
	umad_port_t port;
	int ret = umad_get_port(sa->ca[0] ? sa->ca : NULL, sa->port, &port);

	if (ret)
		return -ENODEV;
	*lid = port.sm_lid;
	*sl = port.sm_sl;
	if (port.state != 4 || !port.sm_lid || !port.base_lid)
		ret = -ENETDOWN;
	umad_release_port(&port);
	return ret;
}

/* Until the answer to this question has come; late ones to others are dropped. */
static int receive(struct sa *sa, void *umad, uint32_t tid)
{
	uint8_t *mad = umad_get_mad(umad);

	for (;;) {
		int length = MAD_SIZE;
		uint32_t got;

		if (umad_recv(sa->fd, umad, &length, (RETRIES + 1) * TIMEOUT_MS + 1000) < 0)
			return errno == EINTR ? -EAGAIN : -errno;
		if (umad_status(umad))
			return -ETIMEDOUT;
		memcpy(&got, mad + 12, 4);
		if (be32toh(got) == tid)
			return judge(mad);
	}
}

/* record: the question and, after 0, the answer. */
static int get(struct sa *sa, uint16_t attribute, uint64_t mask, uint8_t *record, size_t len)
{
	_Alignas(8) uint8_t umad[MAD_SIZE + 64];
	uint16_t lid;
	uint8_t sl;
	int ret = open_port(sa);

	if (!ret)
		ret = sm_of(sa, &lid, &sl);
	if (ret)
		return ret;
	memset(umad, 0, sizeof(umad));
	make_mad(sa, umad_get_mad(umad), GET, attribute, mask, record, len);
	umad_set_addr(umad, lid, 1, sl, QP1_QKEY);
	if (umad_send(sa->fd, sa->agent, umad, MAD_SIZE, TIMEOUT_MS, RETRIES) < 0)
		ret = -EIO;
	else
		ret = receive(sa, umad, sa->tid);
	if (!ret)
		memcpy(record, (uint8_t *)umad_get_mad(umad) + DATA, len);
	else if (ret != -ENOENT)
		close_port(sa);
	return ret;
}

/* ---- records ---- */

static int find(struct sa *sa, uint64_t guid, struct sa_port *port)
{
	uint8_t node[108] = {0}, info[68] = {0};
	int ret;

	put64(node + 24, guid);
	ret = get(sa, NODE_RECORD, NODE_PORT_GUID, node, sizeof(node));
	if (ret)
		return ret;
	port->lid = get16(node);
	port->port = node[40];
	put16(info, port->lid);
	info[2] = port->port;
	ret = get(sa, PORT_INFO_RECORD, PORT_LID | PORT_NUM, info, sizeof(info));
	/* There was one a moment ago, so that "none" is not certain. */
	if (ret)
		return ret == -ENOENT ? -EAGAIN : ret;
	port->state = info[4 + 32] & 15;
	port->lmc = info[4 + 34] & 7;
	return 0;
}

static int read_pkeys(struct sa *sa, struct sa_port *port)
{
	uint8_t record[72] = {0};
	int ret;

	put16(record, port->lid);
	record[4] = port->port;
	ret = get(sa, PKEY_TABLE_RECORD, PKEY_LID | PKEY_BLOCK | PKEY_PORT, record, sizeof(record));
	for (int i = 0; !ret && i < 32; i++)
		port->pkeys[i] = get16(record + 8 + 2 * i);
	return ret == -ENOENT ? -EAGAIN : ret;
}

int sa_find_port(struct sa *sa, uint64_t guid, bool pkeys, struct sa_port *port)
{
	int ret;

	memset(port, 0, sizeof(*port));
	pthread_mutex_lock(&sa->lock);
	ret = find(sa, guid, port);
	if (!ret && pkeys)
		ret = read_pkeys(sa, port);
	pthread_mutex_unlock(&sa->lock);
	return ret;
}

int sa_own_port(struct sa *sa, struct sa_own_port *own)
{
	umad_port_t port;

	if (umad_get_port(sa->ca[0] ? sa->ca : NULL, sa->port, &port))
		return -ENODEV;
	own->prefix = be64toh(port.gid_prefix);
	own->guid = be64toh(port.port_guid);
	own->lmc = port.lmc;
	umad_release_port(&port);
	return 0;
}

/* ---- all switches ---- */

#define TABLE_SIZE (1 << 20) /* 30,000 switches */

/* The table's bytes from DATA on; -errno. */
static int receive_table(struct sa *sa, void *umad)
{
	int length = TABLE_SIZE, ret;

	ret = umad_recv(sa->fd, umad, &length, (RETRIES + 1) * TIMEOUT_MS + 1000);
	if (ret < 0)
		return errno ? -errno : -EIO;
	if (umad_status(umad))
		return -ETIMEDOUT;
	ret = judge(umad_get_mad(umad));
	return ret ? ret : length - DATA;
}

static int smallest_of(const uint8_t *mad, int len, uint16_t *cap)
{
	int stride = get16(mad + 44) * 8;

	*cap = UINT16_MAX;
	if (stride < 6)
		return -ENOENT;
	for (int at = 0; at + stride <= len; at += stride) {
		uint16_t one = get16(mad + DATA + at + 4);

		*cap = one < *cap ? one : *cap;
	}
	return len >= stride ? 0 : -ENOENT;
}

static int ask_switches(struct sa *sa, void *umad, uint16_t *cap)
{
	const uint8_t any[24] = {0};
	uint16_t lid;
	uint8_t sl;
	int ret = open_port(sa);

	if (!ret)
		ret = sm_of(sa, &lid, &sl);
	if (ret)
		return ret;
	make_mad(sa, umad_get_mad(umad), GET_TABLE, SWITCH_INFO_RECORD, 0, any, sizeof(any));
	umad_set_addr(umad, lid, 1, sl, QP1_QKEY);
	if (umad_send(sa->fd, sa->agent, umad, MAD_SIZE, TIMEOUT_MS, RETRIES) < 0)
		return -EIO;
	ret = receive_table(sa, umad);
	return ret < 0 ? ret : smallest_of(umad_get_mad(umad), ret, cap);
}

int sa_smallest_linear_cap(struct sa *sa, uint16_t *cap)
{
	void *umad = calloc(1, TABLE_SIZE + umad_size());
	int ret;

	if (!umad)
		return -ENOMEM;
	pthread_mutex_lock(&sa->lock);
	ret = ask_switches(sa, umad, cap);
	if (ret && ret != -ENOENT)
		close_port(sa);
	pthread_mutex_unlock(&sa->lock);
	free(umad);
	return ret;
}

/* ---- the subnet manager itself ---- */

#define SMI_CLASS 1
#define SM_INFO	  0x20
#define HAND_OVER 1 /* attribute modifier */
#define SM_MASTER 3

/* LID-routed (14.2.1.1), on QP 0; a port, a class and an agent of its own. */
static int send_sm_info(struct sa *sa, int fd, int agent)
{
	_Alignas(8) uint8_t umad[MAD_SIZE + 64] = {0};
	uint8_t *mad = umad_get_mad(umad), sl;
	int length = MAD_SIZE, ret;
	struct sa_own_port own;
	uint16_t lid;

	ret = sm_of(sa, &lid, &sl);
	if (!ret)
		ret = sa_own_port(sa, &own);
	if (ret)
		return ret;
	mad[0] = 1;
	mad[1] = SMI_CLASS;
	mad[2] = 1;
	mad[3] = 2; /* SubnSet */
	put64(mad + 8, 1);
	put16(mad + 16, SM_INFO);
	mad[23] = HAND_OVER;
	put64(mad + 64, own.guid);
	mad[64 + 20] = SM_MASTER;
	umad_set_addr(umad, lid, 0, sl, 0);
	if (umad_send(fd, agent, umad, MAD_SIZE, TIMEOUT_MS, RETRIES) < 0)
		return -EIO;
	if (umad_recv(fd, umad, &length, (RETRIES + 1) * TIMEOUT_MS + 1000) < 0)
		return -errno;
	return umad_status(umad) ? -ETIMEDOUT : get16(mad + 4) & 0x7fff ? -EREMOTEIO : 0;
}

int sa_hand_over(struct sa *sa)
{
	int fd = umad_open_port(sa->ca[0] ? sa->ca : NULL, sa->port), agent, ret;

	if (fd < 0)
		return -ENODEV;
	agent = umad_register(fd, SMI_CLASS, 1, 0, NULL);
	ret = agent < 0 ? -EIO : send_sm_info(sa, fd, agent);
	if (agent >= 0)
		umad_unregister(fd, agent);
	umad_close_port(fd);
	return ret;
}

/* ---- what went wrong ---- */

const char *sa_strerror(int error)
{
	switch (-error) {
	case ENODEV:
		return "there is no such device or port, see \"device\" and \"port\" of "
		       "lidtrackd(8)";
	case ENETDOWN: return "the port is not Active: does a subnet manager run?";
	case ETIMEDOUT:
	case EREMOTEIO: return "it is not there, or \"sm_key\" of lidtrackd(8) is not its key";
	default: return strerror(-error);
	}
}
