/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Addresses of rdma_cm ids: IPv4, IPv6 and AF_IB, and which device of this host has one or reaches
 * one. Functions that say so make system calls: call them without the engine lock.
 */
#ifndef URXE_CM_ADDRESS_H
#define URXE_CM_ADDRESS_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "host/device.h"

/* As <rdma/ib.h> of the kernel has it. */
struct urxe_sockaddr_ib {
	uint16_t family;
	__be16 pkey;
	__be32 flowinfo;
	union ibv_gid addr;
	__be64 sid;
	__be64 sid_mask;
	uint64_t scope_id;
};

union urxe_sockaddr {
	uint16_t family;
	struct sockaddr sa;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct urxe_sockaddr_ib ib;
};

_Static_assert(sizeof(struct urxe_sockaddr_ib) == 48, "ABI");

/* Where packets to an address leave from. */
struct urxe_source {
	int error;	 /* -ENETUNREACH …: no way there */
	bool unresolved; /* the neighbour on the way is not known yet */
	union urxe_sockaddr addr;
	struct urxe_port *port; /* NULL: the source's netdev has none */
	bool v6only;		/* IPv6 addresses serve IPv6 only, by default of this host */
};

/* The size of an address of that family; 0 for a family that there is not. */
unsigned urxe_sockaddr_size(uint16_t family);
uint16_t urxe_sockaddr_port(const union urxe_sockaddr *addr); /* host order */
void urxe_sockaddr_set_port(union urxe_sockaddr *addr, uint16_t port);
bool urxe_sockaddr_is_any(const union urxe_sockaddr *addr);
bool urxe_sockaddr_is_linklocal(const union urxe_sockaddr *addr);
/* An address as the port space has it: IPv6 or IPv4-mapped; of AF_IB the GID. And back, for an IP
 * address. */
void urxe_sockaddr_in6(const union urxe_sockaddr *addr, struct in6_addr *in6);
void urxe_sockaddr_of_in6(union urxe_sockaddr *addr, const struct in6_addr *in6, uint16_t port);

/* The GID of an address that a port has, reaches, or joins as a group: -EHOSTUNREACH, -ENETUNREACH.
 */
int urxe_address_gid(const struct urxe_port *port, const union urxe_sockaddr *addr,
		     union ibv_gid *gid);
/* The partition of packets from an address of a port (its P_Key, with full membership); AF_IB names
 * it. */
uint16_t urxe_address_pkey(const struct urxe_port *port, const union urxe_sockaddr *addr);

/*
 * Whether an id can be bound to addr: the port that has it, or none for an any-address and for a
 * loopback address that no port has;
 * -EADDRNOTAVAIL when this host does not have it, -ENODEV when no port does. Makes system calls.
 */
void urxe_address_local(const union urxe_sockaddr *addr, struct urxe_source *found);
/* A loopback address that no device has, or AF_IB's any, as a destination, means the first device
 * that is active, as in the kernel (cma_bind_loopback): becomes an address of that. */
void urxe_address_this_host(union urxe_sockaddr *dst);
/* Looks which devices there are if none is known yet. May make system calls. */
void urxe_address_prepare(void);
/*
 * Finds the source of packets to dst: src if that is not an any-address, else what the kernel's
 * routes say, or the fabric; an address of this host is reached from itself. Makes system calls.
 */
void urxe_address_source(const union urxe_sockaddr *src, const union urxe_sockaddr *dst,
			 struct urxe_source *found);
/* Is the neighbour known that packets from src to dst go to? 0, or -ENODATA: not yet
 * (host/neigh.h). Makes system calls. */
int urxe_address_look(const union urxe_sockaddr *src, const union urxe_sockaddr *dst);

#endif
