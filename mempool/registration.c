/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Registration, the method's S4: keys come from the device's ibv_reg_mr(), and a row with them
 * goes to the registration table of that device's image. A device that gives the same number
 * as L_Key and R_Key has one row for both, any other has two that name each other as parents.
 * A device may give no R_Key without remote rights (the kernel's rxe returns 0): then there is
 * a row for the L_Key alone.
 *
 * Registrations of the pool's buffers are indexed by the buffer, so that freeing it ends them.
 * Guarded by mr_lock, which is not held over calls of the device. Rows are removed before the
 * device's registration ends, so that the tables never permit a key that is no longer valid.
 */
#include "mempool/registration.h"

#include <errno.h>
#include <stdlib.h>
#include <infiniband/verbs.h>

#include "mempool/debug.h"
#include "mempool/match.h"
#include "mempool/spans.h"

#undef ibv_reg_mr /* the function, not the macro: flags go to the device unchanged */

#define MIN_BUCKETS 1024
#define LOCAL_ONLY  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING)

int mempool_registration_init(struct rmempool *pool)
{
	pool->bucket_count = MIN_BUCKETS;
	pool->buckets = calloc(pool->bucket_count, sizeof(*pool->buckets));
	if (!pool->buckets)
		return -ENOMEM;
	if (pool->attr.flags & RMEMPOOL_REUSE)
		pool->reuse = mempool_reuse_create();
	return 0;
}

/* No registration is left. */
void mempool_registration_destroy(struct rmempool *pool)
{
	struct mempool_adapter *adapter;
	struct mempool_domain *domain;

	if (pool->reuse)
		mempool_reuse_destroy(pool->reuse);
	while ((domain = pool->domains)) {
		pool->domains = domain->next;
		free(domain);
	}
	while ((adapter = pool->adapters)) {
		pool->adapters = adapter->next;
		mempool_image_destroy(&adapter->image);
		free(adapter);
	}
	free(pool->buckets);
}

static struct mempool_adapter *adapter_get(struct rmempool *pool, void *context)
{
	struct mempool_adapter *adapter;

	for (adapter = pool->adapters; adapter; adapter = adapter->next)
		if (adapter->context == context)
			return adapter;
	adapter = calloc(1, sizeof(*adapter));
	if (!adapter)
		return NULL;
	if (mempool_image_create((uintptr_t)pool->base, pool->block_shift, pool->max_blocks,
				 pool->max_runs, 2 * pool->attr.max_registrations,
				 &adapter->image)) {
		free(adapter);
		return NULL;
	}
	adapter->context = context;
	mempool_vapa_set(adapter->image.vapa, pool->runs, pool->run_count);
	adapter->next = pool->adapters;
	pool->adapters = adapter;
	return adapter;
}

/*
 * The domain of a PD, with its user count raised. A PD that was deallocated may have left an unused
 * domain to a new PD at the same address.
 */
static struct mempool_domain *domain_get(struct rmempool *pool, struct ibv_pd *pd)
{
	struct mempool_domain *domain;

	for (domain = pool->domains; domain; domain = domain->next)
		if (domain->pd == pd)
			break;
	if (!domain) {
		domain = calloc(1, sizeof(*domain));
		if (!domain)
			return NULL;
		domain->pd = pd;
		domain->next = pool->domains;
		pool->domains = domain;
	}
	if (!domain->users && domain->context != pd->context) {
		domain->context = NULL;
		domain->adapter = adapter_get(pool, pd->context);
		if (!domain->adapter)
			return NULL;
		domain->context = pd->context;
		domain->number = ++pool->domain_count;
	}
	domain->users++;
	return domain;
}

/* A thread that drops the last use must not access it again. */
static void domain_put(struct mempool_domain *domain)
{
	atomic_fetch_sub_explicit(&domain->users, 1, memory_order_release);
}

static size_t bucket_of(const struct rmempool *pool, uintptr_t buffer)
{
	return (buffer * 0x9e3779b97f4a7c15ull >> 32) & (pool->bucket_count - 1);
}

static void buckets_grow(struct rmempool *pool)
{
	size_t old = pool->bucket_count;
	struct mempool_registration **buckets = pool->buckets, *r;
	struct mempool_registration **more = calloc(2 * old, sizeof(*more));

	if (!more)
		return; /* chains just get longer */
	pool->buckets = more;
	pool->bucket_count = 2 * old;
	for (size_t i = 0; i < old; i++)
		while ((r = buckets[i])) {
			buckets[i] = r->next;
			r->next = more[bucket_of(pool, r->buffer)];
			more[bucket_of(pool, r->buffer)] = r;
		}
	free(buckets);
}

/* Lists the registration of a buffer. mr_lock held. */
static void list(struct rmempool *pool, struct mempool_registration *r)
{
	struct mempool_registration **bucket;

	if (!r->buffer)
		return;
	if (pool->registrations > pool->bucket_count)
		buckets_grow(pool);
	bucket = &pool->buckets[bucket_of(pool, r->buffer)];
	r->next = *bucket;
	*bucket = r;
	atomic_fetch_add_explicit(&pool->pages.run[r->run].mrs, 1, memory_order_release);
}

/* The link to a registration: to that one, or (NULL) to any of the buffer. mr_lock held. */
static struct mempool_registration **find(struct rmempool *pool, uintptr_t buffer,
					  const struct mempool_registration *which)
{
	struct mempool_registration **at = &pool->buckets[bucket_of(pool, buffer)], *r;

	while ((r = *at) && !(which ? r == which : r->buffer == buffer))
		at = &r->next;
	return at;
}

static struct mempool_row row_of(const struct mempool_registration *r, uint32_t key)
{
	bool one = r->mr.lkey == r->mr.rkey;

	return (struct mempool_row){
		.iova = (uintptr_t)r->mr.addr,
		.length = r->mr.length,
		.va = (uintptr_t)r->mr.addr,
		.key = key,
		.pd = r->domain->number,
		.access = r->mr.access & MEMPOOL_RIGHTS,
		.qpn = one		   ? MEMPOOL_ROW_BOTH
		       : key == r->mr.lkey ? MEMPOOL_ROW_L
					   : MEMPOOL_ROW_R,
		.parent = key == r->mr.lkey ? r->mr.rkey : r->mr.lkey,
		.kind = MEMPOOL_REGION,
	};
}

static bool has_second_row(const struct mempool_registration *r)
{
	return r->mr.rkey && r->mr.rkey != r->mr.lkey;
}

/* mr_lock held, as for all functions that write to the tables. */
static int rows_add(struct mempool_registration *r)
{
	struct mempool_table *table = r->domain->adapter->image.table;
	struct mempool_row row = row_of(r, r->mr.lkey);
	int err = mempool_table_add(table, &row);

	if (err || !has_second_row(r))
		return err;
	row = row_of(r, r->mr.rkey);
	err = mempool_table_add(table, &row);
	if (err)
		mempool_table_remove(table, r->mr.lkey);
	return err;
}

static void row_remove(struct rmempool_image *image, uint32_t key)
{
	mempool_table_remove(image->table, key);
	mempool_image_log_key(image, key);
}

/* Takes a registration out of the list and the tables. mr_lock held. */
static void withdraw(struct rmempool *pool, struct mempool_registration *r)
{
	struct rmempool_image *image = &r->domain->adapter->image;

	if (r->buffer) {
		*find(pool, r->buffer, r) = r->next;
		atomic_fetch_sub_explicit(&pool->pages.run[r->run].mrs, 1, memory_order_release);
	}
	if (has_second_row(r))
		row_remove(image, r->mr.rkey);
	row_remove(image, r->mr.lkey);
	pool->registrations--;
}

/* Deregisters what has been withdrawn; a registration that the device refuses to end is
 * restored. */
static int finish(struct rmempool *pool, struct mempool_registration *r)
{
	int err = ibv_dereg_mr(r->mr.ibv);

	if (err) {
		pthread_mutex_lock(&pool->mr_lock);
		rows_add(r); /* cannot fail: its own rows were just freed */
		pool->registrations++;
		list(pool, r);
		pthread_mutex_unlock(&pool->mr_lock);
		return -err;
	}
	domain_put(r->domain);
	free(r);
	return 0;
}

int mempool_registration_end(struct rmempool *pool, struct mempool_registration *r)
{
	pthread_mutex_lock(&pool->mr_lock);
	withdraw(pool, r);
	pthread_mutex_unlock(&pool->mr_lock);
	return finish(pool, r);
}

/* Ends the kept registrations that have to go. */
static void reap(struct rmempool *pool, struct ibv_pd *pd, bool all)
{
	struct mempool_registration *r;

	while (pool->reuse && (r = mempool_reuse_reap(pool->reuse, pd, all)))
		mempool_registration_end(pool, r);
}

/* Registers with the device, and enters the keys into the tables. */
static int begin(struct rmempool *pool, struct mempool_registration *r)
{
	int err;

	r->mr.ibv = ibv_reg_mr(r->mr.pd, r->mr.addr, r->mr.length, r->mr.access);
	if (!r->mr.ibv)
		return errno ? -errno : -ENOMEM;
	r->mr.lkey = r->mr.ibv->lkey;
	r->mr.rkey = r->mr.ibv->rkey;
	pthread_mutex_lock(&pool->mr_lock);
	err = rows_add(r);
	if (!err) {
		pool->registered++;
		list(pool, r);
	}
	pthread_mutex_unlock(&pool->mr_lock);
	if (err)
		ibv_dereg_mr(r->mr.ibv);
	return err;
}

/* Creates a registration and counts it before asking the device, so that the limit also holds
 * for concurrent calls. */
static int create(struct rmempool *pool, struct ibv_pd *pd, void *addr, size_t length, int access,
		  struct mempool_registration **out)
{
	struct mempool_registration *r = malloc(sizeof(*r)); /* in glibc calloc() is much slower */
	int err = -ENOSPC;

	if (!r)
		return -ENOMEM;
	*r = (struct mempool_registration){
		.mr = {.addr = addr, .length = length, .access = access, .pd = pd}};
	pthread_mutex_lock(&pool->mr_lock);
	if (pool->registrations < pool->attr.max_registrations) {
		r->domain = domain_get(pool, pd);
		pool->registrations += r->domain != NULL;
		err = -ENOMEM;
	}
	pthread_mutex_unlock(&pool->mr_lock);
	if (!r->domain) {
		free(r);
		return err;
	}
	r->mr.domain = r->domain->number;
	*out = r;
	return 0;
}

/* Undoes create() after a failure. */
static void discard(struct rmempool *pool, struct mempool_registration *r)
{
	pthread_mutex_lock(&pool->mr_lock);
	pool->registrations--;
	pthread_mutex_unlock(&pool->mr_lock);
	domain_put(r->domain);
	free(r);
}

/* Finds the buffer that contains all of a range. */
static bool buffer_of(struct rmempool *pool, uintptr_t addr, size_t length,
		      struct mempool_extent *extent)
{
	size_t usable;
	bool ok;

	pthread_mutex_lock(&pool->lock);
	ok = mempool_extent_at(pool, addr, extent) &&
	     (extent->large || !mempool_spans_free(pool, extent));
	if (ok) {
		usable = pool->attr.flags & RMEMPOOL_DEBUG ? mempool_debug_length(pool, extent)
							   : extent->length;
		ok = addr - extent->addr <= usable && length <= usable - (addr - extent->addr);
	}
	pthread_mutex_unlock(&pool->lock);
	return ok;
}

static int register_buffer(struct rmempool *pool, struct ibv_pd *pd, void *addr, size_t length,
			   int access, struct rmempool_mr **mr)
{
	struct mempool_registration *r;
	struct mempool_extent extent;
	int err;

	if (!buffer_of(pool, (uintptr_t)addr, length, &extent))
		return -EINVAL;
	err = create(pool, pd, addr, length, access, &r);
	if (err)
		return err;
	r->buffer = extent.addr;
	r->run = extent.run;
	err = begin(pool, r);
	if (err) {
		discard(pool, r);
		return err;
	}
	*mr = &r->mr;
	return 0;
}

/* Memory outside the pool. */
static int register_other(struct rmempool *pool, struct ibv_pd *pd, void *addr, size_t length,
			  int access, struct rmempool_mr **mr)
{
	bool keep = pool->reuse && length && !(access & ~LOCAL_ONLY);
	struct mempool_registration *r;
	int err;

	reap(pool, NULL, false);
	r = keep ? mempool_reuse_find(pool->reuse, pd, addr, length, access) : NULL;
	if (r) {
		*mr = &r->mr;
		return 0;
	}
	err = create(pool, pd, addr, length, access, &r);
	if (err)
		return err;
	r->watched = keep && mempool_reuse_watch(pool->reuse, r);
	err = begin(pool, r);
	if (err) {
		if (r->watched)
			mempool_reuse_remove(pool->reuse, r);
		discard(pool, r);
		return err;
	}
	if (r->watched)
		mempool_reuse_ready(pool->reuse, r);
	*mr = &r->mr;
	return 0;
}

int rmempool_register(struct rmempool *pool, struct ibv_pd *pd, void *addr, size_t length,
		      int access, struct rmempool_mr **mr)
{
	uintptr_t start = (uintptr_t)addr, base = (uintptr_t)pool->base;

	if (length && start + length - 1 < start)
		return -EINVAL;
	if (mempool_has(pool, start))
		return register_buffer(pool, pd, addr, length, access, mr);
	if (start < base && base - start < length)
		return -EINVAL;
	return register_other(pool, pd, addr, length, access, mr);
}

int rmempool_deregister(struct rmempool *pool, struct rmempool_mr *mr)
{
	struct mempool_registration *r = (struct mempool_registration *)mr;

	if (r->watched) {
		mempool_reuse_put(pool->reuse, r);
		reap(pool, NULL, false);
		return 0;
	}
	return mempool_registration_end(pool, r);
}

int mempool_registration_drop(struct rmempool *pool, const struct mempool_extent *extent)
{
	struct mempool_registration *r;
	bool more = true;
	int err = 0;

	while (more && !err) {
		pthread_mutex_lock(&pool->mr_lock);
		r = *find(pool, extent->addr, NULL);
		if (r)
			withdraw(pool, r);
		more = r && *find(pool, extent->addr, NULL);
		pthread_mutex_unlock(&pool->mr_lock);
		if (r)
			err = finish(pool, r);
	}
	return err;
}

int rmempool_forget(struct rmempool *pool, struct ibv_pd *pd)
{
	struct mempool_domain **at, *domain;
	int err = 0;

	reap(pool, pd, false);
	pthread_mutex_lock(&pool->mr_lock);
	for (at = &pool->domains; (domain = *at); at = &domain->next)
		if (domain->pd == pd)
			break;
	if (domain && domain->users) {
		err = -EBUSY;
	} else if (domain) {
		*at = domain->next;
		free(domain);
	}
	pthread_mutex_unlock(&pool->mr_lock);
	return err;
}

/* Ends kept registrations; returns whether any but those of shared keys are left. */
bool mempool_registration_busy(struct rmempool *pool)
{
	uint64_t shared = 0;
	bool busy;

	reap(pool, NULL, true);
	for (uint32_t block = 0; block < pool->max_blocks; block++)
		shared += pool->blocks[block].registration != NULL;
	pthread_mutex_lock(&pool->mr_lock);
	busy = pool->registrations > shared;
	pthread_mutex_unlock(&pool->mr_lock);
	return busy;
}

int mempool_share_block(struct rmempool *pool, uint32_t block)
{
	struct mempool_block *b = &pool->blocks[block];
	size_t bytes = 1ul << pool->block_shift;
	struct mempool_registration *r;
	int err;

	if (!pool->attr.shared_pd)
		return 0;
	err = create(pool, pool->attr.shared_pd, pool->base + block * bytes, bytes,
		     pool->attr.shared_access, &r);
	if (err)
		return err;
	/* No other thread knows the block yet: any hold that is taken meanwhile is the device's. */
	err = begin(pool, r);
	if (err) {
		discard(pool, r);
		return err;
	}
	b->own_holds = atomic_load(&b->holds);
	b->registration = r;
	b->lkey = r->mr.lkey;
	b->rkey = r->mr.rkey;
	return 0;
}

int mempool_unshare_block(struct rmempool *pool, uint32_t block)
{
	struct mempool_block *b = &pool->blocks[block];
	int err = b->registration ? mempool_registration_end(pool, b->registration) : 0;

	if (!err) {
		b->registration = NULL;
		b->lkey = b->rkey = 0;
		b->own_holds = 0;
	}
	return err;
}

void mempool_registration_remap(struct rmempool *pool, uint32_t first, uint32_t count)
{
	struct mempool_adapter *adapter;

	pthread_mutex_lock(&pool->mr_lock);
	mempool_mapping_publish(pool);
	for (adapter = pool->adapters; adapter; adapter = adapter->next) {
		mempool_vapa_set(adapter->image.vapa, pool->runs, pool->run_count);
		mempool_image_log_blocks(&adapter->image, first, count);
	}
	pthread_mutex_unlock(&pool->mr_lock);
}

/*
 * A child has no registrations: their verbs objects belong to its parent. In particular it must
 * drop the images, which are shared. The memory that described them is leaked.
 */
void mempool_registration_fork(struct rmempool *pool)
{
	struct mempool_adapter *adapter;

	for (adapter = pool->adapters; adapter; adapter = adapter->next)
		mempool_image_destroy(&adapter->image);
	pool->adapters = NULL;
	pool->domains = NULL;
	pool->reuse = NULL;
	pool->attr.shared_pd = NULL;
	pool->registrations = 0;
	for (size_t i = 0; i < pool->bucket_count; i++) {
		struct mempool_registration *r = pool->buckets[i];

		for (; r; r = r->next)
			atomic_store(&pool->pages.run[r->run].mrs, 0);
		pool->buckets[i] = NULL;
	}
	for (uint32_t block = 0; block < pool->max_blocks; block++) {
		pool->blocks[block].registration = NULL;
		pool->blocks[block].lkey = pool->blocks[block].rkey = 0;
	}
}

void mempool_registration_query(struct rmempool *pool, struct rmempool_statistics *s)
{
	pthread_mutex_lock(&pool->mr_lock);
	s->registrations = pool->registrations;
	s->registered = pool->registered;
	s->runs = pool->run_count;
	pthread_mutex_unlock(&pool->mr_lock);
	if (pool->reuse)
		mempool_reuse_query(pool->reuse, s);
}

int rmempool_image(struct rmempool *pool, struct ibv_pd *pd, struct rmempool_image **out)
{
	struct rmempool_image *image = calloc(1, sizeof(*image));
	struct mempool_adapter *adapter;

	if (!image)
		return -ENOMEM;
	pthread_mutex_lock(&pool->mr_lock);
	adapter = adapter_get(pool, pd->context);
	if (adapter)
		*image = adapter->image;
	pthread_mutex_unlock(&pool->mr_lock);
	if (!adapter) {
		free(image);
		return -ENOMEM;
	}
	image->own = false;
	*out = image;
	return 0;
}
