/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Descriptors that come from a host, and packets for it. See host.h, and glex_shared.h for the
 * protocol.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inband/sim/host.h"

#define VPS 40 /* of a NIC (paper, 2.1) */

static uint32_t free_vp(const struct chip *chip)
{
	for (uint32_t vp = 0; vp < VPS; vp++) {
		const struct host *host = chip->hosts;

		while (host && host->vp != vp)
			host = host->next_on_chip;
		if (!host)
			return vp;
	}
	return VPS;
}

static int make_memory(struct host *host)
{
	host->memory = memfd_create("thsim-endpoint", MFD_CLOEXEC);
	host->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	host->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (host->memory < 0 || host->kick < 0 || host->bell < 0 ||
	    ftruncate(host->memory, sizeof(*host->shared)))
		return -errno;
	host->shared = mmap(NULL, sizeof(*host->shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			    host->memory, 0);
	if (host->shared != MAP_FAILED)
		return 0;
	host->shared = NULL;
	return -ENOMEM;
}

int host_create(struct sim *sim, unsigned nic, struct host **made)
{
	const struct machine *m = sim->machine;
	struct host *host;
	int ret;

	if (nic >= m->servers)
		return -ENODEV;
	host = calloc(1, sizeof(*host));
	if (!host)
		return -ENOMEM;
	host->memory = host->kick = host->bell = host->socket = -1;
	host->chip = &sim->chips[m->chip_count - m->servers + nic];
	host->vp = free_vp(host->chip);
	host->number = nic * VPS + host->vp;
	ret = host->vp == VPS ? -EBUSY : make_memory(host);
	if (ret) {
		host_destroy(sim, host);
		return ret;
	}
	host->shared->magic = GLEX_MAGIC;
	host->shared->sdq_entries = GLEX_SDQ;
	host->shared->mpq_entries = GLEX_MPQ;
	host->shared->nic_id = host->chip->id;
	host->shared->vp = host->vp;
	host->shared->send_cost = sim->config.times.send;
	host->shared->receive_cost = sim->config.times.receive;
	atomic_store(&host->shared->clock, sim->now);
	atomic_store(&host->shared->done, sim->now);
	host->next_on_chip = host->chip->hosts;
	host->chip->hosts = host;
	host->next = sim->hosts;
	sim->hosts = host;
	*made = host;
	return 0;
}

void host_destroy(struct sim *sim, struct host *host)
{
	for (struct host **at = &sim->hosts; *at; at = &(*at)->next)
		if (*at == host) {
			*at = host->next;
			break;
		}
	for (struct host **at = &host->chip->hosts; *at; at = &(*at)->next_on_chip)
		if (*at == host) {
			*at = host->next_on_chip;
			break;
		}
	if (host->shared)
		munmap(host->shared, sizeof(*host->shared));
	for (unsigned i = 0; i < 4; i++) {
		int fd = ((const int[]){host->socket, host->memory, host->kick, host->bell})[i];

		if (fd >= 0)
			close(fd);
	}
	free(host);
}

static void put_mpq(struct sim *sim, struct host *host, const struct nmp_descriptor *descriptor)
{
	struct glex_shared *s = host->shared;
	struct glex_slot *slot = &s->mpq[host->mpq_tail % GLEX_MPQ];

	/* It goes on when it looks again, which is not before its own clock. */
	if (host->clock < sim->limit)
		sim->limit = host->clock;
	if (host->mpq_tail - atomic_load_explicit(&s->mpq_head, memory_order_acquire) >= GLEX_MPQ) {
		sim->counts.mpq_full++;
		return;
	}
	slot->descriptor = *descriptor;
	slot->time = sim->now;
	atomic_store_explicit(&s->mpq_tail, ++host->mpq_tail, memory_order_release);
}

void host_deliver(struct sim *sim, struct chip *chip, struct packet *packet)
{
	struct nmp_descriptor descriptor;
	struct host *host = chip->hosts;

	while (host && host->vp != packet->nmp.dest_vp)
		host = host->next_on_chip;
	if (host) {
		packet->nmp.head = NMP_HEAD;
		nmp_to_descriptor(&packet->nmp, &descriptor);
		put_mpq(sim, host, &descriptor);
	} else {
		sim->counts.refused++;
	}
	sim_packet_free(sim, packet);
}

void host_submit(struct sim *sim, struct packet *packet)
{
	struct chip *chip = &sim->chips[packet->port];

	if (packet->local) {
		if (!nma_accept(sim, chip, packet))
			sim_packet_free(sim, packet);
		return;
	}
	fifo_push(&chip->outgoing, packet);
	fifo_advance(sim, &chip->outgoing);
}

/* The NIC looks at a descriptor before it makes a packet of it (3.3): refused ones come back with
 * Err set. */
static void take_descriptor(struct sim *sim, struct host *host, const struct glex_slot *slot)
{
	struct nmp_descriptor descriptor = slot->descriptor;
	struct packet *packet = sim_packet(sim);
	struct nmp *nmp = &packet->nmp;

	if (nmp_from_descriptor(&descriptor, nmp) || !nmp_is_request(nmp->type) ||
	    nmp->src_vp != host->vp) {
		nmp->err = 1;
		nmp->head = NMP_HEAD;
		nmp_to_descriptor(nmp, &descriptor);
		put_mpq(sim, host, &descriptor);
		sim->counts.refused++;
		sim_packet_free(sim, packet);
		return;
	}
	packet->port = host->chip - sim->chips;
	packet->local = nmp->dest_type == NMP_NIC && !nmp->forward.hops;
	sim->counts.packets++;
	/* After all else of that time, so that it does not matter when thsim has looked. */
	calendar_push(&sim->calendar,
		      (struct event){.at = slot->time > sim->now ? slot->time : sim->now,
				     .order = 1ull << 63 | (uint64_t)host->number << 40 |
					      (uint64_t)host->sdq_head << 8 | EVENT_SUBMIT,
				     .packet = packet});
}

void host_collect(struct sim *sim, struct host *host)
{
	struct glex_shared *s = host->shared;
	uint32_t tail = atomic_load_explicit(&s->sdq_tail, memory_order_acquire);

	if (tail - host->sdq_head > GLEX_SDQ)
		tail = host->sdq_head + GLEX_SDQ;
	if (tail == host->sdq_head)
		return;
	while (host->sdq_head != tail)
		take_descriptor(sim, host, &s->sdq[host->sdq_head++ % GLEX_SDQ]);
	atomic_store_explicit(&s->sdq_head, tail, memory_order_release);
}

uint64_t host_limit(struct sim *sim, struct host *host)
{
	struct glex_shared *s = host->shared;
	uint32_t head = atomic_load_explicit(&s->mpq_head, memory_order_acquire);
	uint64_t until = atomic_load_explicit(&s->until, memory_order_acquire);

	host->clock = atomic_load_explicit(&s->clock, memory_order_acquire);
	host_collect(sim, host);
	return head == host->mpq_tail && until > host->clock ? until : host->clock;
}

void host_tell(struct host *host, uint64_t done)
{
	struct glex_shared *s = host->shared;
	uint64_t one = 1;

	if (atomic_load_explicit(&s->done, memory_order_relaxed) < done)
		atomic_store_explicit(&s->done, done, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&s->server_sleeps) &&
	    (atomic_load(&s->mpq_head) != host->mpq_tail || atomic_load(&s->until) <= done) &&
	    atomic_exchange(&s->server_sleeps, 0) && write(host->bell, &one, sizeof(one)) < 0)
		return; /* rung already */
}
