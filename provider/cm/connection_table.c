// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Three hash tables over the same identifiers: by local communication ID; by the peer's
 * communication ID, to know a repeated REQ; by the peer's QPN, to know a stale connection
 * (12.9.8.3.1). The latter two also compare the CA GUID and the GID, so that nobody answers for
 * another host. A table doubles when it is full and hashes with a secret key. Under the manager's
 * lock.
 */
#include "cm/connection_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/siphash.h"

#define FIRST_SIZE 64

/* What an identifier is found by: all that counts in its table, zeros else. */
struct key {
	uint64_t guid;
	uint32_t number; /* communication ID, or QPN */
	uint32_t kind;	 /* the table, and whether it is a request ID of SIDR */
	struct urxe_link_addr addr;
};
_Static_assert(sizeof(struct key) == 32, "no padding: keys are compared and hashed as bytes");

static struct key key_of(const struct urxe_cm_id *id, enum urxe_cm_by by)
{
	struct key key = {.kind = by, .guid = id->remote_ca_guid, .addr = id->path.av.dst};

	switch (by) {
	case URXE_CM_BY_REMOTE:
		key.number = id->remote_id;
		key.kind |= id->sidr << 8;
		return key;
	case URXE_CM_BY_QPN: key.number = id->remote_qpn; return key;
	default: return (struct key){.kind = by, .number = id->local_id};
	}
}

static struct urxe_cm_id *id_of(struct cds_hlist_node *node, enum urxe_cm_by by)
{
	return caa_container_of(node - by, struct urxe_cm_id, nodes[0]);
}

static struct cds_hlist_head *bucket(const struct urxe_cm *cm, const struct urxe_cm_table *table,
				     const struct key *key)
{
	unsigned hash = key->kind == URXE_CM_BY_LOCAL
				? urxe_siphash(cm->key, &key->number, sizeof(key->number))
				: urxe_siphash(cm->key, key, sizeof(*key));

	return &table->buckets[hash & (table->size - 1)];
}

static void put(const struct urxe_cm *cm, struct urxe_cm_table *table, struct cds_hlist_node *node,
		enum urxe_cm_by by)
{
	struct key key = key_of(id_of(node, by), by);

	cds_hlist_add_head(node, bucket(cm, table, &key));
}

/* Without memory it stays as it is: slower, not wrong. */
static void grow(const struct urxe_cm *cm, struct urxe_cm_table *table, enum urxe_cm_by by)
{
	struct urxe_cm_table larger = {.size = table->size * 2, .used = table->used};
	struct cds_hlist_node *node;

	larger.buckets = calloc(larger.size, sizeof(*larger.buckets));
	if (!larger.buckets)
		return;
	for (unsigned i = 0; i < table->size; i++) {
		while ((node = table->buckets[i].next)) {
			cds_hlist_del(node);
			put(cm, &larger, node, by);
		}
	}
	free(table->buckets);
	*table = larger;
}

int urxe_cm_tables_create(struct urxe_cm *cm)
{
	for (unsigned by = 0; by < URXE_CM_TABLES; by++) {
		cm->tables[by].size = FIRST_SIZE;
		cm->tables[by].buckets = calloc(FIRST_SIZE, sizeof(*cm->tables[by].buckets));
		if (!cm->tables[by].buckets) {
			urxe_cm_tables_destroy(cm);
			return -ENOMEM;
		}
	}
	return 0;
}

void urxe_cm_tables_destroy(struct urxe_cm *cm)
{
	for (unsigned by = 0; by < URXE_CM_TABLES; by++)
		free(cm->tables[by].buckets);
}

void urxe_cm_enter(struct urxe_cm_id *id, enum urxe_cm_by by)
{
	struct urxe_cm_table *table = &id->cm->tables[by];

	if (table->used >= table->size)
		grow(id->cm, table, by);
	put(id->cm, table, &id->nodes[by], by);
	table->used++;
	id->entered[by] = true;
}

void urxe_cm_remove(struct urxe_cm_id *id, enum urxe_cm_by by)
{
	if (!id->entered[by])
		return;
	cds_hlist_del(&id->nodes[by]);
	id->cm->tables[by].used--;
	id->entered[by] = false;
}

static struct urxe_cm_id *find(struct urxe_cm *cm, enum urxe_cm_by by, const struct key *key)
{
	struct cds_hlist_node *node = bucket(cm, &cm->tables[by], key)->next;

	for (; node; node = node->next) {
		struct key own = key_of(id_of(node, by), by);

		if (!memcmp(&own, key, sizeof(own)))
			return id_of(node, by);
	}
	return NULL;
}

struct urxe_cm_id *urxe_cm_local_find(struct urxe_cm *cm, uint32_t local_id)
{
	return find(cm, URXE_CM_BY_LOCAL,
		    &(struct key){.kind = URXE_CM_BY_LOCAL, .number = local_id});
}

struct urxe_cm_id *urxe_cm_remote_find(struct urxe_cm *cm, bool sidr, uint32_t remote_id,
				       uint64_t guid, const struct urxe_link_addr *addr)
{
	return find(cm, URXE_CM_BY_REMOTE,
		    &(struct key){guid, remote_id, URXE_CM_BY_REMOTE | sidr << 8, *addr});
}

struct urxe_cm_id *urxe_cm_qpn_find(struct urxe_cm *cm, uint32_t qpn, uint64_t guid,
				    const struct urxe_link_addr *addr)
{
	return find(cm, URXE_CM_BY_QPN, &(struct key){guid, qpn, URXE_CM_BY_QPN, *addr});
}
