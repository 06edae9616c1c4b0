/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Devices by GUID, and their names: what they describe themselves as, made different where two say
 * the same. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "inband/manage/ib_mad.h"

static uint32_t hash_of(uint64_t guid)
{
	return guid * 0x9e3779b97f4a7c15ull >> 32;
}

struct ib_node *ib_node_find(const struct ib *ib, uint64_t guid)
{
	struct ib_node *n = ib->hash_size ? ib->hash[hash_of(guid) & (ib->hash_size - 1)] : NULL;

	while (n && n->guid != guid)
		n = n->chain;
	return n;
}

static uint32_t name_hash(const char *name)
{
	uint32_t h = 2166136261u;

	while (*name)
		h = (h ^ (uint8_t)*name++) * 16777619u;
	return h;
}

static void link_in(struct ib *ib, struct ib_node *n)
{
	struct ib_node **at = &ib->hash[hash_of(n->guid) & (ib->hash_size - 1)];

	n->chain = *at;
	*at = n;
	at = &ib->names[name_hash(n->name) & (ib->hash_size - 1)];
	n->same_name = *at;
	*at = n;
}

static bool grow(struct ib *ib)
{
	uint32_t old = ib->hash_size, size = old ? 2 * old : 1024;
	struct ib_node **was = ib->hash, **names = ib->names;
	struct ib_node **hash = calloc(size, sizeof(*hash)), **fresh = calloc(size, sizeof(*fresh));

	if (!hash || !fresh) {
		free(hash);
		free(fresh);
		return false;
	}
	ib->hash = hash;
	ib->names = fresh;
	ib->hash_size = size;
	for (uint32_t i = 0; i < old; i++)
		for (struct ib_node *n = was[i], *next; n; n = next) {
			next = n->chain;
			link_in(ib, n);
		}
	free(was);
	free(names);
	return true;
}

struct ib_node *ib_node_make(struct ib *ib, uint64_t guid)
{
	struct ib_node *n = ib_node_find(ib, guid);

	if (n)
		return n;
	if (ib->nodes == ib->hash_size && !grow(ib))
		return NULL;
	n = calloc(1, sizeof(*n));
	if (!n)
		return NULL;
	n->guid = guid;
	snprintf(n->name, sizeof(n->name), "0x%016lx", guid);
	ib->nodes++;
	link_in(ib, n);
	return n;
}

static bool is_taken(const struct ib *ib, const char *name, const struct ib_node *by)
{
	for (const struct ib_node *n = ib->names[name_hash(name) & (ib->hash_size - 1)]; n;
	     n = n->same_name)
		if (n != by && !strcmp(n->name, name))
			return true;
	return false;
}

static void rename_to(struct ib *ib, struct ib_node *n, const char *name)
{
	struct ib_node **at = &ib->names[name_hash(n->name) & (ib->hash_size - 1)];

	while (*at != n)
		at = &(*at)->same_name;
	*at = n->same_name;
	snprintf(n->name, sizeof(n->name), "%s", name);
	at = &ib->names[name_hash(n->name) & (ib->hash_size - 1)];
	n->same_name = *at;
	*at = n;
}

void ib_node_name(struct ib *ib, struct ib_node *n, const uint8_t description[64])
{
	char name[IB_NAME_LEN] = "", *to = name;

	for (unsigned i = 0; i < 64 && description[i] && to - name < IB_NAME_LEN - 1; i++)
		*to++ = isalnum(description[i]) || strchr("._-", description[i]) ? description[i]
										 : '_';
	while (to > name && to[-1] == '_')
		to--;
	*to = 0;
	n->named = true;
	if (!name[0])
		return;
	/* "MT25408 ConnectX" is what many say. */
	if (is_taken(ib, name, n))
		snprintf(name + (strlen(name) < 18 ? strlen(name) : 18), sizeof(name) - 18, "-%08x",
			 (uint32_t)n->guid);
	if (!is_taken(ib, name, n))
		rename_to(ib, n, name);
}

struct ib_node *ib_node_lid(const struct ib *ib, uint16_t lid)
{
	for (uint32_t i = 0; i < ib->hash_size; i++)
		for (struct ib_node *n = ib->hash[i]; n; n = n->chain)
			if (n->lid == lid)
				return n;
	return NULL;
}

void ib_nodes_free(struct ib *ib)
{
	for (uint32_t i = 0; i < ib->hash_size; i++)
		for (struct ib_node *n = ib->hash[i], *next; n; n = next) {
			next = n->chain;
			free(n->seen);
			free(n);
		}
	free(ib->hash);
	free(ib->names);
}
