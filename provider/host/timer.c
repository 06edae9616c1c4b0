/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "host/timer.h"

static unsigned slot_of(uint64_t tick)
{
	return tick % URXE_WHEEL_SLOTS;
}

void urxe_wheel_init(struct urxe_wheel *wheel, uint64_t now)
{
	for (unsigned i = 0; i < URXE_WHEEL_SLOTS; i++)
		CDS_INIT_LIST_HEAD(&wheel->slots[i]);
	for (unsigned i = 0; i < URXE_WHEEL_SLOTS / 64; i++)
		wheel->used[i] = 0;
	wheel->tick = now >> URXE_WHEEL_SHIFT;
	wheel->armed = 0;
}

void urxe_timer_arm(struct urxe_wheel *wheel, struct urxe_timer *timer, uint64_t deadline)
{
	/* Rounded up, so that a timer never fires early. */
	uint64_t tick = (deadline >> URXE_WHEEL_SHIFT) + 1;
	unsigned slot;

	urxe_timer_disarm(wheel, timer);
	if (tick < wheel->tick)
		tick = wheel->tick;
	slot = slot_of(tick);
	timer->deadline = deadline ? deadline : 1;
	cds_list_add_tail(&timer->node, &wheel->slots[slot]);
	wheel->used[slot / 64] |= 1ull << (slot % 64);
	wheel->armed++;
}

void urxe_timer_disarm(struct urxe_wheel *wheel, struct urxe_timer *timer)
{
	if (!timer->deadline)
		return;
	cds_list_del(&timer->node);
	timer->deadline = 0;
	wheel->armed--;
}

static void run_slot(struct urxe_wheel *wheel, unsigned slot, uint64_t now, urxe_timer_fn *fn)
{
	struct cds_list_head due, *pos, *next;
	struct urxe_timer *timer;

	CDS_INIT_LIST_HEAD(&due);
	cds_list_for_each_safe (pos, next, &wheel->slots[slot]) {
		timer = cds_list_entry(pos, struct urxe_timer, node);
		if (timer->deadline <= now) {
			cds_list_del(pos);
			cds_list_add_tail(pos, &due);
		}
	}
	if (cds_list_empty(&wheel->slots[slot]))
		wheel->used[slot / 64] &= ~(1ull << (slot % 64));
	/* One at a time from the front: fn may disarm or destroy any other timer. */
	while (!cds_list_empty(&due)) {
		timer = cds_list_first_entry(&due, struct urxe_timer, node);
		urxe_timer_disarm(wheel, timer);
		fn(timer, now);
	}
}

void urxe_wheel_run(struct urxe_wheel *wheel, uint64_t now, urxe_timer_fn *fn)
{
	uint64_t end = now >> URXE_WHEEL_SHIFT;

	if (end < wheel->tick)
		return;
	if (end - wheel->tick >= URXE_WHEEL_SLOTS)
		wheel->tick = end - URXE_WHEEL_SLOTS + 1;
	while (wheel->tick <= end) {
		unsigned slot = slot_of(wheel->tick++);

		if (wheel->used[slot / 64] & (1ull << (slot % 64)))
			run_slot(wheel, slot, now, fn);
	}
}

/* Slots whose timers were all disarmed are found out here, where it costs no message anything. */
uint64_t urxe_wheel_next(struct urxe_wheel *wheel)
{
	if (!wheel->armed)
		return UINT64_MAX;
	for (unsigned i = 0; i < URXE_WHEEL_SLOTS; i++) {
		unsigned slot = slot_of(wheel->tick + i);
		uint64_t *word = &wheel->used[slot / 64];
		uint64_t rest = *word >> (slot % 64);

		if (!rest) {
			i += 63 - slot % 64;
			continue;
		}
		i += __builtin_ctzll(rest);
		slot += __builtin_ctzll(rest);
		if (!cds_list_empty(&wheel->slots[slot]))
			return (wheel->tick + i) << URXE_WHEEL_SHIFT;
		*word &= ~(1ull << (slot % 64));
	}
	return (wheel->tick + URXE_WHEEL_SLOTS) << URXE_WHEEL_SHIFT;
}
