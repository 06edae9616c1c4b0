/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ethernet frames as they are, of a netdev: packet(7) sockets, for raw packet QPs. Frames that come
 * are seen beside the kernel, which handles them too; frames that this host sends are not seen.
 * Under the engine's lock, unless said otherwise.
 */
#ifndef URXE_WIRE_RAW_H
#define URXE_WIRE_RAW_H

#include <stdint.h>
#include <sys/socket.h>

struct urxe_port;
struct urxe_raw;
struct urxe_wire;

/* May this process have packet sockets? 0, or -EPERM with a line that says what is missing. Any
 * thread. */
int urxe_raw_permitted(void);

/* A frame from its destination MAC on, without its check sequence; an 802.1Q tag is where it
 * was. */
typedef void urxe_raw_rx_fn(const uint8_t *frame, uint32_t len, void *arg);

/* Frames of that port's netdev: they go to fn once somebody listens. -EPERM, -ENODEV, -errno. */
int urxe_raw_open(struct urxe_wire *wire, const struct urxe_port *port, urxe_raw_rx_fn *fn,
		  void *arg, struct urxe_raw **raw);
void urxe_raw_close(struct urxe_raw *raw);
/* The same in the child of a fork: the parent is undisturbed. */
void urxe_raw_forked(struct urxe_raw *raw);
/* Whether frames that come are wanted: -errno. */
int urxe_raw_listen(struct urxe_raw *raw, bool listen);

/*
 * Sends frames, of whose headers only the pieces are set: how many have left. Fewer:
 * *error says why the next one has not, -EAGAIN (later), -EMSGSIZE (it is longer than the
 * netdev takes) or another.
 */
unsigned urxe_raw_send(struct urxe_raw *raw, struct mmsghdr *frames, unsigned n, int *error);

#endif
