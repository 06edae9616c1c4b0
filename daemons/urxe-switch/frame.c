/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Frames: the pool they come from, what they are, the shim put in and taken out, and ECN marks.
 * A frame stands HEADROOM bytes into its buffer, so that the shim costs a move of twelve bytes.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemons/urxe-switch/switch.h"

#define ROCE_PORT 4791
#define ETHERNET  14

int frames_create(struct daemon *d)
{
	size_t size = d->settings.frames * sizeof(*d->frames);

	/* Memory is touched as frames come. */
	d->frames = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (d->frames == MAP_FAILED)
		return -errno;
	d->free_frame = NONE;
	for (uint32_t f = d->settings.frames; f-- > 0; d->free_frame = f)
		d->frames[f].next = d->free_frame;
	return 0;
}

uint32_t frame_new(struct daemon *d)
{
	uint32_t f = d->free_frame;

	if (f == NONE) {
		d->no_frame++;
		return NONE;
	}
	d->free_frame = d->frames[f].next;
	d->frames_out++;
	memset(&d->frames[f], 0, offsetof(struct frame, key));
	d->frames[f].start = HEADROOM;
	d->frames[f].ingress = UINT16_MAX;
	return f;
}

void frame_free(struct daemon *d, uint32_t f)
{
	uncharge(d, &d->frames[f]);
	d->frames[f].next = d->free_frame;
	d->free_frame = f;
	d->frames_out--;
}

void fifo_add(struct daemon *d, struct fifo *fifo, uint32_t f)
{
	d->frames[f].next = NONE;
	if (fifo->first == NONE)
		fifo->first = f;
	else
		d->frames[fifo->last].next = f;
	fifo->last = f;
	fifo->bytes += d->frames[f].size;
}

uint32_t fifo_take(struct daemon *d, struct fifo *fifo)
{
	uint32_t f = fifo->first;

	if (f != NONE) {
		fifo->first = d->frames[f].next;
		fifo->bytes -= d->frames[f].size;
	}
	return f;
}

static uint16_t get16(const uint8_t *b)
{
	return (uint16_t)(b[0] << 8 | b[1]);
}

static void put16(uint8_t *b, unsigned v)
{
	b[0] = (uint8_t)(v >> 8);
	b[1] = (uint8_t)v;
}

/* Ports and QP of a UDP datagram to RoCE's port that is long enough for a BTH. */
static bool roce_ports(const uint8_t *udp, size_t size, uint16_t *sport, uint32_t *qpn)
{
	if (size < 8 + 12 || get16(udp + 2) != ROCE_PORT)
		return false;
	*sport = get16(udp);
	*qpn = (uint32_t)udp[8 + 5] << 16 | (uint32_t)get16(udp + 8 + 6);
	return true;
}

void frame_classify(struct frame *frame)
{
	const uint8_t *b = frame->bytes + frame->start, *ip = b + ETHERNET;
	uint8_t from[16] = {0}, to[16] = {0};
	size_t size = frame->size - ETHERNET;
	uint16_t type = get16(b + 12), sport = 0;
	uint32_t qpn = 0;

	if (type == 0x0800 && size >= 20 && ip[0] >> 4 == 4 && (ip[0] & 15) >= 5) {
		size_t header = (size_t)(ip[0] & 15) * 4;

		from[10] = from[11] = to[10] = to[11] = 0xff;
		memcpy(from + 12, ip + 12, 4);
		memcpy(to + 12, ip + 16, 4);
		/* Fragments have no ports. */
		frame->roce = ip[9] == IPPROTO_UDP && !(get16(ip + 6) & 0x3fff) && size > header &&
			      roce_ports(ip + header, size - header, &sport, &qpn);
	} else if (type == 0x86dd && size >= 40 && ip[0] >> 4 == 6) {
		memcpy(from, ip + 8, 16);
		memcpy(to, ip + 24, 16);
		frame->roce = ip[6] == IPPROTO_UDP && roce_ports(ip + 40, size - 40, &sport, &qpn);
	} else {
		memcpy(from, b + 6, 6);
		memcpy(to, b, 6);
	}
	reorder_key(&frame->key, from, to, sport, frame->roce ? ROCE_PORT : 0, qpn);
	frame->id = reorder_id(&frame->key);
}

/* The Ethernet type goes: what follows tells IPv4 from IPv6 by its first four bits. */
void frame_push_shim(struct frame *frame, const struct reorder_shim *shim)
{
	size_t size = reorder_shim_size(shim);
	uint8_t *b = frame->bytes + frame->start;

	memmove(b - size, b, 12);
	put16(b - size + 12, REORDER_ETHERTYPE);
	reorder_shim_encode(shim, b - size + ETHERNET);
	frame->start -= (uint16_t)size;
	frame->size += (uint16_t)size;
	frame->shimmed = true;
}

int frame_pop_shim(struct frame *frame, struct reorder_shim *shim)
{
	uint8_t *b = frame->bytes + frame->start;
	int size;

	if (frame->size < ETHERNET + REORDER_SHIM || get16(b + 12) != REORDER_ETHERTYPE)
		return -EPROTO;
	size = reorder_shim_decode(shim, b + ETHERNET, frame->size - ETHERNET);
	if (size < 0 || frame->size <= ETHERNET + size)
		return -EPROTO;
	put16(b + 12 + size, b[ETHERNET + size] >> 4 == 6 ? 0x86dd : 0x0800);
	memmove(b + size, b, 12);
	frame->start += (uint16_t)size;
	frame->size -= (uint16_t)size;
	frame->shimmed = false;
	return 0;
}

/* RFC 1624: the checksum of an IPv4 header of which one word has changed. */
static void fix_checksum(uint8_t *ip, uint16_t before, uint16_t after)
{
	uint32_t sum = (uint16_t)~get16(ip + 10) + (uint16_t)~before + (uint32_t)after;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(ip + 10, (uint16_t)~sum);
}

bool frame_mark(struct frame *frame, bool always)
{
	uint8_t *b = frame->bytes + frame->start, *ip = b + ETHERNET;
	uint16_t type = get16(b + 12), before;

	if (type == REORDER_ETHERTYPE) {
		ip += b[ETHERNET] & REORDER_REROUTED ? REORDER_SHIM_MAX : REORDER_SHIM;
		type = ip[0] >> 4 == 6 ? 0x86dd : 0x0800;
	}
	if (!frame->roce || (type != 0x0800 && type != 0x86dd))
		return false;
	if (type == 0x0800) {
		if (!(ip[1] & 3) && !always)
			return false;
		before = get16(ip);
		ip[1] |= 3;
		fix_checksum(ip, before, get16(ip));
		return true;
	}
	if (!(ip[1] & 0x30) && !always)
		return false;
	ip[1] |= 0x30;
	return true;
}
