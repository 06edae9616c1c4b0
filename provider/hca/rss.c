/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <string.h>

#include "hca/rss.h"

#define V4    ((uint64_t)(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4))
#define V6    ((uint64_t)(IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6))
#define TCP   ((uint64_t)(IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP))
#define UDP   ((uint64_t)(IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP))
#define INNER ((uint64_t)IBV_RX_HASH_INNER)

/* As mlx5: one version of IP, and one kind of port or the SPI, in one hash. */
int urxe_rss_check(const struct ibv_rx_hash_conf *conf)
{
	uint64_t fields = conf->rx_hash_fields_mask;
	unsigned l4 = !!(fields & TCP) + !!(fields & UDP) + !!(fields & IBV_RX_HASH_IPSEC_SPI);

	if (conf->rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ ||
	    conf->rx_hash_key_len != URXE_RSS_KEY_LEN || !conf->rx_hash_key ||
	    (fields & ~URXE_RSS_FIELDS) || ((fields & V4) && (fields & V6)) || l4 > 1)
		return EINVAL;
	return 0;
}

/* The input of the hash: at most two addresses and two ports. */
struct input {
	uint8_t bytes[36];
	unsigned len;
};

static void put(struct input *in, bool there, const void *field, unsigned len)
{
	if (!there)
		return;
	memcpy(in->bytes + in->len, field, len);
	in->len += len;
}

/* For each bit of the input that is 1, the 32 bits of the key that begin there. */
static uint32_t toeplitz(const uint8_t *key, const struct input *in)
{
	uint32_t window = (uint32_t)key[0] << 24 | key[1] << 16 | key[2] << 8 | key[3], hash = 0;

	for (unsigned i = 0; i < in->len; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (in->bytes[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	}
	return hash;
}

uint32_t urxe_rss_hash(const uint8_t key[URXE_RSS_KEY_LEN], uint64_t fields,
		       const struct urxe_frame *frame)
{
	const struct urxe_frame_headers *h = fields & INNER ? &frame->inner : &frame->outer;
	bool v4 = h->present & FRAME_IPV4, v6 = h->present & FRAME_IPV6;
	bool tcp = h->present & FRAME_TCP, udp = h->present & FRAME_UDP;
	struct input in = {.len = 0};

	put(&in, v4 && (fields & IBV_RX_HASH_SRC_IPV4), &h->ipv4.src_ip, 4);
	put(&in, v4 && (fields & IBV_RX_HASH_DST_IPV4), &h->ipv4.dst_ip, 4);
	put(&in, v6 && (fields & IBV_RX_HASH_SRC_IPV6), h->ipv6.src_ip, 16);
	put(&in, v6 && (fields & IBV_RX_HASH_DST_IPV6), h->ipv6.dst_ip, 16);
	put(&in,
	    (tcp && (fields & IBV_RX_HASH_SRC_PORT_TCP)) ||
		    (udp && (fields & IBV_RX_HASH_SRC_PORT_UDP)),
	    &h->ports.src_port, 2);
	put(&in,
	    (tcp && (fields & IBV_RX_HASH_DST_PORT_TCP)) ||
		    (udp && (fields & IBV_RX_HASH_DST_PORT_UDP)),
	    &h->ports.dst_port, 2);
	put(&in, (h->present & FRAME_ESP) && (fields & IBV_RX_HASH_IPSEC_SPI), &h->esp.spi, 4);
	return toeplitz(key, &in);
}
