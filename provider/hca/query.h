/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Queries that the context's operation table calls with a size (verbs.h's extended forms), and what
 * sysfs shows of them too. Any thread.
 */
#ifndef URXE_HCA_QUERY_H
#define URXE_HCA_QUERY_H

#include <infiniband/verbs.h>

int urxe_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
			 struct ibv_device_attr_ex *attr, size_t size);
int urxe_query_port_ex(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		       size_t size);
/* A port's width and speed: the codes of struct ibv_port_attr, and what sysfs calls both
 * together. */
struct urxe_rate {
	uint32_t mbps; /* from this speed of the netdev on */
	uint8_t width, speed;
	const char *text;
};

/* Those whose product comes closest to the netdev's speed, from below. */
const struct urxe_rate *urxe_rate_of(uint32_t mbps);

int urxe_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);

#endif
