/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fault specifications and the random decisions made from them. What is done with a packet that
 * must wait is in fault_queue.c. No state beyond struct urxe_fault; its owner guards it.
 */
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/fault.h"

#define CERTAIN (1ull << 32)

/* splitmix64: small, seeded by any number, and good enough for dice. */
static uint64_t next_random(struct urxe_fault *fault)
{
	uint64_t z = (fault->state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static bool happens(struct urxe_fault *fault, uint64_t chance)
{
	return next_random(fault) >> 32 < chance;
}

struct urxe_fate urxe_fault_draw(struct urxe_fault *fault)
{
	struct urxe_fate fate = {
		.drop = happens(fault, fault->drop),
		.dup = happens(fault, fault->dup),
		.corrupt = happens(fault, fault->corrupt),
	};
	unsigned distance = 1 + next_random(fault) % 8;

	fate.reorder = happens(fault, fault->reorder) ? distance : 0;
	return fate;
}

void urxe_fault_corrupt(struct urxe_fault *fault, void *packet, uint32_t len)
{
	uint64_t random = next_random(fault);
	unsigned flips = 1 + random % 3;
	uint32_t bits = len * 8;
	uint32_t bit = (random >> 8) % bits;

	/* Different bits: a stride that is smaller than the packet cannot come back in two
	 * steps. */
	for (unsigned k = 0; k < flips; k++) {
		((uint8_t *)packet)[bit / 8] ^= 1u << bit % 8;
		bit = (bit + 1 + (random >> 40) % (bits / 4 + 1)) % bits;
	}
}

/* ---- the specification ---- */

static int fail(char *err, size_t size, const char *item, size_t len, const char *why)
{
	snprintf(err, size, "fault specification: \"%.*s\": %s", (int)len, item, why);
	return -EINVAL;
}

/* A decimal number without sign or exponent; returns what follows it, NULL if there is none. */
static const char *parse_number(const char *text, double *value)
{
	double scale = 1;
	const char *p = text;

	*value = 0;
	for (; isdigit((unsigned char)*p); p++)
		*value = *value * 10 + (*p - '0');
	if (p == text)
		return NULL;
	if (*p == '.') {
		if (!isdigit((unsigned char)*++p))
			return NULL;
		for (; isdigit((unsigned char)*p); p++)
			*value += (*p - '0') * (scale /= 10);
	}
	return p;
}

static int parse_chance(const char *text, void *to)
{
	double value;
	const char *rest = parse_number(text, &value);

	if (!rest)
		return -EINVAL;
	if (*rest == '%') {
		value /= 100;
		rest++;
	}
	if (*rest || value > 1)
		return -EINVAL;
	*(uint64_t *)to = (uint64_t)(value * (double)CERTAIN + 0.5);
	return 0;
}

static int parse_time(const char *text, void *to)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	uint64_t *ns = to;
	double value;
	const char *rest = parse_number(text, &value);

	if (!rest)
		return -EINVAL;
	if (!*rest && !value) { /* 0 has no unit */
		*ns = 0;
		return 0;
	}
	for (size_t k = 0; k < sizeof(units) / sizeof(units[0]); k++) {
		if (strcmp(rest, units[k].unit))
			continue;
		if (value * units[k].ns > 10e9)
			return -EINVAL;
		*ns = (uint64_t)(value * units[k].ns + 0.5);
		return 0;
	}
	return -EINVAL;
}

static int parse_seed(const char *text, void *seed)
{
	char *end;

	errno = 0;
	*(uint64_t *)seed = strtoull(text, &end, 0);
	return !isdigit((unsigned char)*text) || *end || errno ? -EINVAL : 0;
}

static int parse_dir(const char *text, void *dir)
{
	static const char *const names[] = {
		[URXE_FAULT_OUT] = "out", [URXE_FAULT_IN] = "in", [URXE_FAULT_BOTH] = "both"};

	for (unsigned k = URXE_FAULT_OUT; k <= URXE_FAULT_BOTH; k++) {
		if (!strcmp(text, names[k])) {
			*(enum urxe_fault_dir *)dir = k;
			return 0;
		}
	}
	return -EINVAL;
}

static const char chance[] = "a chance is 0% to 100% or 0 to 1";

/* A key has the name of what it sets. */
#define KEY(member) #member, offsetof(struct urxe_fault, member)

static const struct {
	const char *key;
	size_t at;
	int (*parse)(const char *text, void *value);
	const char *why; /* what parse asks for */
} items[] = {
	{KEY(drop), parse_chance, chance},
	{KEY(dup), parse_chance, chance},
	{KEY(reorder), parse_chance, chance},
	{KEY(corrupt), parse_chance, chance},
	{KEY(delay), parse_time, "a delay is a number with ns, us, ms or s, at most 10s"},
	{KEY(seed), parse_seed, "a seed is a whole number"},
	{KEY(dir), parse_dir, "a direction is out, in or both"},
};

static int parse_item(const char *item, struct urxe_fault *fault, char *err, size_t size)
{
	const char *why = "unknown; there are drop, dup, reorder, corrupt, delay, seed and dir";
	size_t key = strcspn(item, "=");

	if (!item[key])
		why = "is not key=value";
	for (size_t k = 0; item[key] && k < sizeof(items) / sizeof(items[0]); k++) {
		if (key != strlen(items[k].key) || memcmp(item, items[k].key, key))
			continue;
		if (!items[k].parse(item + key + 1, (char *)fault + items[k].at))
			return 0;
		why = items[k].why;
	}
	return fail(err, size, item, strnlen(item, 63), why);
}

int urxe_fault_parse(const char *spec, struct urxe_fault *fault, char *err, size_t size)
{
	struct urxe_fault parsed = {.seed = 1, .dir = URXE_FAULT_OUT};
	char copy[512];
	char *item, *rest = copy;

	if (!spec)
		spec = "";
	if (strlen(spec) >= sizeof(copy))
		return fail(err, size, spec, 32, "too long");
	strcpy(copy, spec);
	if (*copy) {
		while ((item = strsep(&rest, ","))) {
			int ret = parse_item(item, &parsed, err, size);

			if (ret)
				return ret;
		}
	}
	parsed.state = parsed.seed;
	*fault = parsed;
	return 0;
}
