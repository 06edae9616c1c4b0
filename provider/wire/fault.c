/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Fault specifications and the random decisions made from them. What is done with a packet that
 * must wait is in hold.c. No state beyond struct urxe_fault; its owner guards it.
 */
#include <ctype.h>
#include <errno.h>
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

static int parse_chance(const char *text, uint64_t *chance)
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
	*chance = (uint64_t)(value * (double)CERTAIN + 0.5);
	return 0;
}

static int parse_time(const char *text, uint64_t *ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
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

static int parse_seed(const char *text, uint64_t *seed)
{
	char *end;

	errno = 0;
	*seed = strtoull(text, &end, 0);
	return !isdigit((unsigned char)*text) || *end || errno ? -EINVAL : 0;
}

static int parse_dir(const char *text, enum urxe_fault_dir *dir)
{
	static const struct {
		const char *name;
		enum urxe_fault_dir dir;
	} dirs[] = {{"out", URXE_FAULT_OUT}, {"in", URXE_FAULT_IN}, {"both", URXE_FAULT_BOTH}};

	for (size_t k = 0; k < sizeof(dirs) / sizeof(dirs[0]); k++) {
		if (!strcmp(text, dirs[k].name)) {
			*dir = dirs[k].dir;
			return 0;
		}
	}
	return -EINVAL;
}

static int parse_item(char *item, struct urxe_fault *fault, char *err, size_t size)
{
	size_t len = strlen(item);
	char *value = strchr(item, '=');
	char shown[64];

	snprintf(shown, sizeof(shown), "%s", item);
	if (!value)
		return fail(err, size, shown, len, "is not key=value");
	*value++ = 0;
	uint64_t *chance = !strcmp(item, "drop")      ? &fault->drop
			   : !strcmp(item, "dup")     ? &fault->dup
			   : !strcmp(item, "reorder") ? &fault->reorder
			   : !strcmp(item, "corrupt") ? &fault->corrupt
						      : NULL;
	if (chance)
		return parse_chance(value, chance)
			       ? fail(err, size, shown, len, "a chance is 0% to 100% or 0 to 1")
			       : 0;
	if (!strcmp(item, "delay"))
		return parse_time(value, &fault->delay)
			       ? fail(err, size, shown, len,
				      "a delay is a number with ns, us, ms or s, at most 10s")
			       : 0;
	if (!strcmp(item, "seed"))
		return parse_seed(value, &fault->seed)
			       ? fail(err, size, shown, len, "a seed is a whole number")
			       : 0;
	if (!strcmp(item, "dir"))
		return parse_dir(value, &fault->dir)
			       ? fail(err, size, shown, len, "a direction is out, in or both")
			       : 0;
	return fail(err, size, shown, len,
		    "unknown; there are drop, dup, reorder, corrupt, delay, seed and dir");
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
