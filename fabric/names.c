// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Names of nodes and hosts. fabricd's thread.
 */
#include "fabric/names.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "HCA-1", "mlx5_0": which adapter of its host it is. */
static bool names_adapter(const char *word)
{
	static const char *const kinds[] = {"HCA-",  "mlx", "mthca", "hfi", "qib",
					    "ipath", "ibp", "ib",    "urxe"};
	size_t len = strlen(word);

	if (!len || strchr(word, ' ') || !isalnum((unsigned char)word[len - 1]))
		return false;
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strncmp(word, kinds[i], strlen(kinds[i])))
			return true;
	return false;
}

static void description(const struct fabric_node *node, char desc[FABRIC_DESC_LEN + 1])
{
	memcpy(desc, node->desc, FABRIC_DESC_LEN);
	desc[FABRIC_DESC_LEN] = '\0';
}

void names_host_of(const struct fabric_node *node, char name[FABRIC_DESC_LEN + 1])
{
	char *space;

	description(node, name);
	space = strchr(name, ' ');
	if (space && names_adapter(space + 1))
		*space = '\0';
}

/* Is that word a GUID, or an identifier made of one? 0: no. */
static uint64_t guid_of(const char *name)
{
	const char *digits = name;

	if (strlen(name) == 18 && strchr("SHR", name[0]) && name[1] == '-')
		digits += 2;
	else if (!strncasecmp(name, "0x", 2))
		digits += 2;
	else
		return 0;
	if (!*digits || digits[strspn(digits, "0123456789abcdefABCDEF")])
		return 0;
	return strtoull(digits, NULL, 16);
}

/* 2: by all of its name, 1: by that of its host, 0: not. */
static int matches(const struct fabric_node *node, const char *name, uint64_t guid)
{
	char word[FABRIC_DESC_LEN + 1];

	if (guid && node->guid == guid)
		return 2;
	description(node, word);
	if (!strcmp(word, name))
		return 2;
	names_host_of(node, word);
	return node->type != NODE_SWITCH && !strcmp(word, name);
}

struct fabric_node *names_node(const struct fabric_map *map, const char *name, char *error,
			       size_t len)
{
	uint64_t guid = guid_of(name);
	struct fabric_node *found = NULL;
	int best = 0, same = 0;

	for (uint32_t i = 0; i < map->num_nodes; i++) {
		struct fabric_node *node = fabric_map_node(map, i);
		int match = matches(node, name, guid);

		if (match > best) {
			best = match;
			found = node;
			same = 0;
		}
		same += match && match == best;
	}
	if (same == 1)
		return found;
	if (same)
		snprintf(error, len,
			 "%d nodes are called \"%s\": name one by its GUID (urxe fabric show)",
			 same, name);
	else
		snprintf(error, len, "no node is called \"%s\": urxe fabric show lists them", name);
	return NULL;
}

int names_host(const struct fabric_map *map, const char *name, uint32_t *adapters, int most,
	       char *error, size_t len)
{
	uint64_t guid = guid_of(name);
	int n = 0, all = 0;

	for (uint32_t i = 0; i < map->num_nodes; i++) {
		const struct fabric_node *node = fabric_map_node(map, i);
		int match = node->type == NODE_SWITCH ? 0 : matches(node, name, guid);

		if (match && n < most)
			adapters[n++] = i;
		all += match == 2;
	}
	/* Adapters of one host have numbers; the same description twice is of two hosts. */
	if (all > 1) {
		snprintf(error, len,
			 "%d hosts are called \"%s\": name one by the GUID of its adapter "
			 "(urxe fabric show)",
			 all, name);
		return -1;
	}
	if (!n) {
		snprintf(error, len, "no host is called \"%s\": urxe fabric show lists them", name);
		return -1;
	}
	return n;
}

/* ---- which adapters are of one host ---- */

static int by_host(const void *a, const void *b, void *map)
{
	const struct fabric_node *first = fabric_map_node(map, *(const uint32_t *)a);
	const struct fabric_node *second = fabric_map_node(map, *(const uint32_t *)b);
	char name[FABRIC_DESC_LEN + 1], other[FABRIC_DESC_LEN + 1];
	int order;

	names_host_of(first, name);
	names_host_of(second, other);
	order = strcmp(name, other);
	if (!order)
		order = memcmp(first->desc, second->desc, FABRIC_DESC_LEN);
	return order ? order : first > second ? 1 : -1;
}

static bool same_host(const struct fabric_node *a, const struct fabric_node *b)
{
	char name[FABRIC_DESC_LEN + 1], other[FABRIC_DESC_LEN + 1];

	names_host_of(a, name);
	names_host_of(b, other);
	return !strcmp(name, other);
}

/* Adapters first to last - 1, in order, have one host's name: it is one host if their descriptions
 * differ. */
static void number(struct fabric_map *map, const uint32_t *order, uint32_t first, uint32_t last)
{
	uint32_t host = order[first];
	bool several = false;

	for (uint32_t i = first + 1; i < last; i++) {
		several = several ||
			  !memcmp(fabric_map_node(map, order[i])->desc,
				  fabric_map_node(map, order[i - 1])->desc, FABRIC_DESC_LEN);
		if (order[i] < host)
			host = order[i];
	}
	for (uint32_t i = first; i < last; i++)
		fabric_map_node(map, order[i])->host = several ? order[i] : host;
}

int names_number_hosts(struct fabric_map *map)
{
	uint32_t *order = calloc(map->num_nodes + 1, sizeof(*order)), n = 0, first = 0;

	if (!order)
		return -ENOMEM;
	for (uint32_t i = 0; i < map->num_nodes; i++)
		if (fabric_map_node(map, i)->type != NODE_SWITCH)
			order[n++] = i;
	qsort_r(order, n, sizeof(*order), by_host, map);
	for (uint32_t i = 1; i <= n; i++) {
		if (i < n &&
		    same_host(fabric_map_node(map, order[i - 1]), fabric_map_node(map, order[i])))
			continue;
		number(map, order, first, i);
		first = i;
	}
	free(order);
	return 0;
}
