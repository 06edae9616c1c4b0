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

struct key {
	uint64_t guid;
	uint32_t number; /* communication ID, or QPN */
	uint32_t kind;
	struct urxe_link_addr addr;
};

enum { KIND_LOCAL, KIND_REMOTE, KIND_SIDR, KIND_QPN };

static unsigned hash_key(const struct urxe_cm *cm, const struct key *key)
{
	return urxe_siphash(cm->key, key, sizeof(*key));
}

static unsigned hash_local(const struct urxe_cm *cm, uint32_t local_id)
{
	return hash_key(cm, &(struct key){.number = local_id, .kind = KIND_LOCAL});
}

static unsigned hash_remote(const struct urxe_cm *cm, bool sidr, uint32_t remote_id, uint64_t guid,
			    const struct urxe_link_addr *addr)
{
	return hash_key(cm, &(struct key){.guid = guid,
					  .number = remote_id,
					  .kind = sidr ? KIND_SIDR : KIND_REMOTE,
					  .addr = *addr});
}

static unsigned hash_qpn(const struct urxe_cm *cm, uint32_t qpn, uint64_t guid,
			 const struct urxe_link_addr *addr)
{
	return hash_key(
		cm, &(struct key){.guid = guid, .number = qpn, .kind = KIND_QPN, .addr = *addr});
}

static struct cds_hlist_head *bucket(const struct urxe_cm_table *table, unsigned hash)
{
	return &table->buckets[hash & (table->size - 1)];
}

static unsigned hash_of_local(struct cds_hlist_node *node)
{
	struct urxe_cm_id *id = cds_hlist_entry(node, struct urxe_cm_id, local_node);

	return hash_local(id->cm, id->local_id);
}

static unsigned hash_of_remote(struct cds_hlist_node *node)
{
	struct urxe_cm_id *id = cds_hlist_entry(node, struct urxe_cm_id, remote_node);

	return hash_remote(id->cm, id->sidr, id->remote_id, id->remote_ca_guid, &id->path.av.dst);
}

static unsigned hash_of_qpn(struct cds_hlist_node *node)
{
	struct urxe_cm_id *id = cds_hlist_entry(node, struct urxe_cm_id, qpn_node);

	return hash_qpn(id->cm, id->remote_qpn, id->remote_ca_guid, &id->path.av.dst);
}

/* Without memory it stays as it is: slower, not wrong. */
static void grow(struct urxe_cm_table *table, unsigned (*hash)(struct cds_hlist_node *))
{
	struct urxe_cm_table larger = {.size = table->size * 2, .used = table->used};
	struct cds_hlist_node *node;

	larger.buckets = calloc(larger.size, sizeof(*larger.buckets));
	if (!larger.buckets)
		return;
	for (unsigned i = 0; i < table->size; i++) {
		while ((node = table->buckets[i].next)) {
			cds_hlist_del(node);
			cds_hlist_add_head(node, bucket(&larger, hash(node)));
		}
	}
	free(table->buckets);
	*table = larger;
}

static void insert(struct urxe_cm_table *table, struct cds_hlist_node *node,
		   unsigned (*hash)(struct cds_hlist_node *))
{
	if (table->used >= table->size)
		grow(table, hash);
	cds_hlist_add_head(node, bucket(table, hash(node)));
	table->used++;
}

static void take_out(struct urxe_cm_table *table, struct cds_hlist_node *node)
{
	cds_hlist_del(node);
	table->used--;
}

int urxe_cm_tables_create(struct urxe_cm *cm)
{
	struct urxe_cm_table *tables[] = {&cm->local, &cm->remote, &cm->qpn};

	for (unsigned i = 0; i < 3; i++) {
		tables[i]->size = FIRST_SIZE;
		tables[i]->buckets = calloc(FIRST_SIZE, sizeof(*tables[i]->buckets));
		if (!tables[i]->buckets) {
			urxe_cm_tables_destroy(cm);
			return -ENOMEM;
		}
	}
	return 0;
}

void urxe_cm_tables_destroy(struct urxe_cm *cm)
{
	free(cm->local.buckets);
	free(cm->remote.buckets);
	free(cm->qpn.buckets);
}

void urxe_cm_local_insert(struct urxe_cm_id *id)
{
	insert(&id->cm->local, &id->local_node, hash_of_local);
}

void urxe_cm_local_remove(struct urxe_cm_id *id)
{
	take_out(&id->cm->local, &id->local_node);
}

struct urxe_cm_id *urxe_cm_local_find(struct urxe_cm *cm, uint32_t local_id)
{
	struct urxe_cm_id *id;

	cds_hlist_for_each_entry_2(id, bucket(&cm->local, hash_local(cm, local_id)), local_node)
	{
		if (id->local_id == local_id)
			return id;
	}
	return NULL;
}

void urxe_cm_remote_insert(struct urxe_cm_id *id)
{
	insert(&id->cm->remote, &id->remote_node, hash_of_remote);
	id->in_remote = true;
}

void urxe_cm_remote_remove(struct urxe_cm_id *id)
{
	if (id->in_remote)
		take_out(&id->cm->remote, &id->remote_node);
	id->in_remote = false;
}

struct urxe_cm_id *urxe_cm_remote_find(struct urxe_cm *cm, bool sidr, uint32_t remote_id,
				       uint64_t guid, const struct urxe_link_addr *addr)
{
	unsigned hash = hash_remote(cm, sidr, remote_id, guid, addr);
	struct urxe_cm_id *id;

	cds_hlist_for_each_entry_2(id, bucket(&cm->remote, hash), remote_node)
	{
		if (id->sidr == sidr && id->remote_id == remote_id && id->remote_ca_guid == guid &&
		    urxe_same_addr(&id->path.av.dst, addr))
			return id;
	}
	return NULL;
}

void urxe_cm_qpn_insert(struct urxe_cm_id *id)
{
	insert(&id->cm->qpn, &id->qpn_node, hash_of_qpn);
	id->in_qpn = true;
}

void urxe_cm_qpn_remove(struct urxe_cm_id *id)
{
	if (id->in_qpn)
		take_out(&id->cm->qpn, &id->qpn_node);
	id->in_qpn = false;
}

struct urxe_cm_id *urxe_cm_qpn_find(struct urxe_cm *cm, uint32_t qpn, uint64_t guid,
				    const struct urxe_link_addr *addr)
{
	unsigned hash = hash_qpn(cm, qpn, guid, addr);
	struct urxe_cm_id *id;

	cds_hlist_for_each_entry_2(id, bucket(&cm->qpn, hash), qpn_node)
	{
		if (id->remote_qpn == qpn && id->remote_ca_guid == guid &&
		    urxe_same_addr(&id->path.av.dst, addr))
			return id;
	}
	return NULL;
}
