/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Memory regions (IBTA vol. 1, 10.6, 11.2.8.2): rows of the registration table. Any address of the
 * process can be reached without pinning, so registering costs the same for any length.
 *
 * Deregistering and changing a region takes the engine lock, and waits for neighbours: no copy and
 * no bind is under way when the verb returns.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hca/direct.h"
#include "hca/dm.h"
#include "hca/engine.h"
#include "hca/lost_memory.h"
#include "hca/memory.h"
#include "host/libc.h"

#define ACCESS_KNOWN                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |     \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)
#define ACCESS_TABLE                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)
/* What may let others in: windows give rights that their region has not. */
#define REMOTE_ACCESS                                                                  \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
	 IBV_ACCESS_MW_BIND)

/* Remote write and atomics need local write (ibv_reg_mr(3)). */
static int access_check(unsigned access)
{
	if (access & ~ACCESS_KNOWN)
		return -EINVAL;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

/*
 * Is memory there, and may it be read or written? Nothing is pinned here, so that must be known
 * beforehand: a copy to a page that cannot be written to would kill the program.
 *
 * Pages of a short range are brought in, which finds out everything. For longer ones that would
 * take as long as pinning. If they lie in one mapping, one page speaks for all: the last one,
 * because a mapping of a file may reach beyond its end. Else the mappings are walked: by ioctl
 * (Linux 6.11), a question for each, or by reading /proc/self/maps.
 */
#define SHORT_PAGES 16

/* What PROCMAP_QUERY asks and answers (linux/fs.h of Linux 6.11). */
struct mapping_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t start, end;
	uint64_t flags;
	uint64_t page_size;
	uint64_t offset;
	uint64_t inode;
	uint32_t dev_major, dev_minor;
	uint32_t name_size, build_id_size;
	uint64_t name_addr, build_id_addr;
};
static_assert(sizeof(struct mapping_query) == 104, "the kernel's layout");
#define MAPPING_QUERY	 _IOWR('f', 17, struct mapping_query)
#define MAPPING_READABLE 0x01
#define MAPPING_WRITABLE 0x02

/* A range that is looked at: start is the first byte of which nothing is known yet. */
struct range {
	uintptr_t start, end, page;
	bool write;
};

/* Brings pages in: 0, -EFAULT, or another error that says nothing about them. */
static int populate(uintptr_t start, uintptr_t end, bool write)
{
	if (!madvise((void *)start, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	return errno == ENOMEM || errno == EHWPOISON ? -EFAULT : -errno;
}

/* The next mapping: 0 to go on. */
static int look_at(struct range *r, uintptr_t start, uintptr_t end, unsigned flags, bool of_file)
{
	if (start > r->start || !(flags & (r->write ? MAPPING_WRITABLE : MAPPING_READABLE)))
		return -EFAULT;
	r->start = end < r->end ? end : r->end;
	if (of_file && populate(r->start - r->page, r->start, r->write) == -EFAULT)
		return -EFAULT;
	return 0;
}

/* -ENOTTY before Linux 6.11. */
static int walk_by_query(int fd, struct range *r)
{
	int ret = 0;

	while (!ret && r->start < r->end) {
		struct mapping_query q = {.size = sizeof(q), .query_addr = r->start};

		if (syscall(SYS_ioctl, fd, MAPPING_QUERY, &q) < 0)
			return errno == ENOENT ? -EFAULT : -ENOTTY;
		ret = look_at(r, q.start, q.end, q.flags, q.inode);
	}
	return ret;
}

/* A line of /proc/self/maps: "start-end rwxp offset device inode path". */
static int look_at_line(struct range *r, const char *line)
{
	unsigned long start, end, inode;
	char perms[5];
	unsigned flags;

	if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &start, &end, perms, &inode) != 4)
		return -EIO;
	if (end <= r->start)
		return 0;
	flags = (perms[0] == 'r' ? MAPPING_READABLE : 0) | (perms[1] == 'w' ? MAPPING_WRITABLE : 0);
	return look_at(r, start, end, flags, inode);
}

static int walk_by_lines(int fd, struct range *r)
{
	char buf[4096], line[128];
	size_t len = 0;
	ssize_t n;

	while ((n = urxe_libc.read(fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			int ret;

			if (buf[i] != '\n') {
				/* Only a path makes a line longer than this. */
				if (len < sizeof(line) - 1)
					line[len++] = buf[i];
				continue;
			}
			line[len] = '\0';
			len = 0;
			ret = look_at_line(r, line);
			if (ret || r->start >= r->end)
				return ret;
		}
	}
	return n < 0 ? -EIO : -EFAULT;
}

static int walk(struct range *r)
{
	int fd = urxe_libc.open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int ret;

	if (fd < 0)
		return -EIO;
	ret = walk_by_query(fd, r);
	if (ret == -ENOTTY)
		ret = walk_by_lines(fd, r);
	urxe_libc.close(fd);
	return ret;
}

/*
 * To let a mapping grow beyond all address space is refused, and why tells whether the old size
 * lies within one mapping (ENOMEM) or not (EFAULT). Since Linux 6.16 or so it is EINVAL in either
 * case. Past libc's function, because libraries watch that for mappings that move.
 */
static bool in_one_mapping(const struct range *r)
{
	return syscall(SYS_mremap, r->start, r->end - r->start, 1ul << 62, 0, 0) == -1 &&
	       errno == ENOMEM;
}

static int check_range(struct range r)
{
	int ret = -EINVAL;

	if (r.end - r.start <= SHORT_PAGES * r.page)
		ret = populate(r.start, r.end, r.write);
	else if (in_one_mapping(&r))
		ret = populate(r.end - r.page, r.end, r.write);
	/* EINVAL: a read-only mapping, one of a device, or a kernel that does not know the
	 * advice. */
	if (ret && ret != -EFAULT)
		ret = walk(&r);
	/* Without /proc */
	if (ret && ret != -EFAULT)
		ret = populate(r.start, r.end, r.write);
	return ret == -EFAULT || (ret && !populate(r.start, r.end, false)) ? -EFAULT : 0;
}

static struct range pages_of(const struct urxe_mr *mr)
{
	uintptr_t page = sysconf(_SC_PAGESIZE), addr = (uintptr_t)mr->ibv.addr;

	return (struct range){
		.start = addr & ~(page - 1),
		.end = (addr + mr->ibv.length + page - 1) & ~(page - 1),
		.page = page,
		.write = mr->access & IBV_ACCESS_LOCAL_WRITE,
	};
}

/* Is all of a region mapped, and writable where it must be? -EFAULT if not, as from pinning. */
static int check_mapped(const struct urxe_mr *mr)
{
	struct range r = pages_of(mr);
	uintptr_t addr = (uintptr_t)mr->ibv.addr;
	int saved = errno, ret;

	if (addr + mr->ibv.length < addr)
		return -EINVAL;
	if (r.end < r.start)
		return -EFAULT; /* the last page of the address space */
	ret = check_range(r);
	errno = saved;
	return ret;
}

static uint32_t marks_of(const struct urxe_mr *mr)
{
	if (mr->null)
		return URXE_NULL;
	return mr->access & IBV_ACCESS_ON_DEMAND ? 0 : URXE_RESIDENT;
}

static void fill_row(struct mempool_row *row, const struct urxe_mr *mr)
{
	*row = (struct mempool_row){
		.iova = mr->iova,
		.length = mr->ibv.length,
		.va = (uintptr_t)mr->ibv.addr,
		.key = mr->ibv.lkey,
		.pd = to_pd(mr->ibv.pd)->number,
		.access = (mr->access & ACCESS_TABLE) | marks_of(mr),
		.kind = MEMPOOL_REGION,
		.object = mr->place.object,
	};
}

/*
 * Is its memory known to be there, and to stay? Huge pages that libmempool has only reserved are
 * brought in: neighbours map them, and do not know what a lack of them is (direct_objects.c).
 */
static bool is_there(struct urxe_mr *mr)
{
	struct rmempool_hold *hold = &mr->place.hold;
	struct range r;
	int saved = errno;

	if (mr->place.known && !hold->resident && hold->pages != RMEMPOOL_PAGES_PLAIN) {
		r = pages_of(mr);
		hold->resident = !populate(r.start, r.end, true);
		errno = saved;
	}
	return mr->place.known && hold->resident;
}

/*
 * Finds out whether the memory of a region is there, and where neighbours may map it.
 *
 * On demand means: whatever is there when it is used; all of the address space, even. There the
 * addresses count, and not the memory that was there when they were registered.
 */
static int find_memory(struct urxe_mr *mr)
{
	int ret = 0;

	if (!mr->ibv.length || (mr->access & IBV_ACCESS_ON_DEMAND)) {
		mr->place = (struct urxe_place){0};
		return 0;
	}
	if (mr->dm)
		urxe_place_of_file(&mr->place, &to_context(mr->dm->ibv.context)->file);
	else
		urxe_place_get(&mr->place, mr->ibv.addr, mr->ibv.length);
	if (!is_there(mr))
		ret = check_mapped(mr);
	if (ret)
		urxe_place_put(&mr->place);
	else if (mr->access & REMOTE_ACCESS)
		urxe_place_show(&mr->place);
	return ret;
}

/* A key that was given in this process. */
static void free_key(const struct urxe_mr *mr)
{
	if (mr->ibv.lkey && mr->imported != URXE_MR_MAPPED)
		urxe_segment_key_index_free(urxe_hca.seg, mr->ibv.lkey >> 8);
}

/* A new key: a random index that no other has on this host, and a random last byte. */
static uint32_t new_key(void)
{
	uint32_t index = urxe_segment_key_index_alloc(urxe_hca.seg);

	return index ? index << 8 : 0;
}

static struct cds_list_head *bucket(struct urxe_context *ctx, uint32_t lkey)
{
	return &ctx->mrs[(lkey >> 8) % URXE_MR_BUCKETS];
}

struct urxe_mr *urxe_mr_find(struct urxe_context *ctx, uint32_t lkey)
{
	struct urxe_mr *mr, *found = NULL;

	pthread_mutex_lock(&urxe_regions_lock);
	cds_list_for_each_entry (mr, bucket(ctx, lkey), node)
		if (mr->ibv.lkey == lkey)
			found = mr;
	pthread_mutex_unlock(&urxe_regions_lock);
	return found;
}

/* Enters a region whose memory is known under its key; takes ownership of it. NULL and errno. */
static struct ibv_mr *enter(struct urxe_mr *mr)
{
	struct urxe_context *ctx = to_context(mr->ibv.context);
	struct mempool_row row;
	int ret;

	fill_row(&row, mr);
	pthread_mutex_lock(&urxe_regions_lock);
	ret = mr->ibv.lkey ? mempool_table_add(urxe_hca.table, &row) : -ENOSPC;
	if (!ret)
		cds_list_add(&mr->node, bucket(ctx, mr->ibv.lkey));
	pthread_mutex_unlock(&urxe_regions_lock);
	if (ret) {
		free_key(mr);
		urxe_place_put(&mr->place);
		free(mr);
		return urxe_fail(ret == -ENOSPC ? ENOMEM : -ret);
	}
	urxe_pd_use(to_pd(mr->ibv.pd), 1);
	return &mr->ibv;
}

/* A region that has no keys yet, with what its maker asks for; NULL and errno. */
static struct urxe_mr *new_region(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				  unsigned access)
{
	struct urxe_mr *mr = NULL;
	int ret = access_check(access);

	if (!ret && !urxe_context_here(pd->context))
		ret = -errno;
	if (!ret && length && iova + length - 1 < iova)
		ret = -EINVAL;
	/* Not calloc(), which is much slower in glibc. */
	if (!ret && !(mr = malloc(sizeof(*mr))))
		ret = -ENOMEM;
	if (ret)
		return urxe_fail(-ret);
	mr->ibv = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	mr->iova = access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
	mr->access = access;
	mr->windows = 0;
	mr->forks = urxe_forks;
	mr->null = mr->lost = false;
	mr->dm = NULL;
	mr->imported = URXE_MR_OWN;
	mr->mapping = (struct urxe_mapping){0};
	return mr;
}

struct ibv_mr *urxe_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				 unsigned access)
{
	struct urxe_mr *mr = new_region(pd, addr, length, iova, access);
	int ret;

	if (!mr)
		return NULL;
	ret = find_memory(mr);
	if (ret) {
		free(mr);
		return urxe_fail(-ret);
	}
	urxe_lost_memory_watch();
	mr->ibv.lkey = mr->ibv.rkey = mr->ibv.handle = new_key();
	return enter(mr);
}

struct ibv_mr *urxe_mr_enter_null(struct ibv_pd *pd)
{
	struct urxe_mr *mr = new_region(pd, NULL, SIZE_MAX, 0, IBV_ACCESS_LOCAL_WRITE);

	if (!mr)
		return NULL;
	mr->null = true;
	mr->place = (struct urxe_place){0};
	mr->ibv.lkey = mr->ibv.handle = new_key();
	return enter(mr);
}

/* Of device memory, whose addresses mean nothing to a program: requests name offsets
 * (ibv_reg_dm_mr(3)). */
struct ibv_mr *urxe_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *ibv, uint64_t offset, size_t length,
			      unsigned access)
{
	struct urxe_context_file *file = &to_context(pd->context)->file;
	struct urxe_dm *dm = to_dm(ibv);
	struct ibv_mr *entered;
	struct urxe_mr *mr;
	int ret;

	if (!ibv || ibv->context != pd->context || !(access & IBV_ACCESS_ZERO_BASED) ||
	    (access & IBV_ACCESS_ON_DEMAND) || offset > dm->length || length > dm->length - offset)
		return urxe_fail(EINVAL);
	if (urxe_inherited(dm->forks))
		return urxe_fail(EIO);
	mr = new_region(pd, dm->addr + offset, length, 0, access);
	if (!mr)
		return NULL;
	ret = urxe_context_file_use_dm(file, ibv->handle, &dm->regions);
	if (ret) {
		free(mr);
		return urxe_fail(-ret);
	}
	mr->dm = dm;
	find_memory(mr);
	mr->ibv.lkey = mr->ibv.rkey = mr->ibv.handle = new_key();
	entered = enter(mr);
	if (!entered)
		urxe_context_file_use(file, urxe_object_of_dm(ibv->handle), &dm->regions, -1);
	return entered;
}

/* Takes its keys away, unless another process that shares it has, and (unlist) it out of its
 * context. */
void urxe_mr_revoke(struct urxe_mr *mr, bool unlist)
{
	int ret;

	pthread_mutex_lock(&urxe_regions_lock);
	ret = mempool_table_remove(urxe_hca.table, mr->ibv.lkey);
	if (unlist)
		cds_list_del(&mr->node);
	pthread_mutex_unlock(&urxe_regions_lock);
	if (!ret)
		free_key(mr);
}

static void free_region(struct urxe_mr *mr)
{
	struct urxe_context *ctx = to_context(mr->ibv.context);

	urxe_pd_use(to_pd(mr->ibv.pd), -1);
	if (mr->dm && !urxe_inherited(mr->forks))
		urxe_context_file_use(&ctx->file, urxe_object_of_dm(mr->dm->ibv.handle),
				      &mr->dm->regions, -1);
	if (mr->imported == URXE_MR_MAPPED)
		munmap(mr->mapping.at, mr->mapping.size);
	free(mr);
}

int urxe_dereg_mr(struct ibv_mr *ibv)
{
	struct urxe_mr *mr = to_mr(ibv);

	if (!urxe_inherited(mr->forks)) {
		/* Under the lock nobody is in the middle of a copy or a bind. */
		urxe_engine_lock();
		if (mr->windows) {
			urxe_engine_unlock();
			return EBUSY;
		}
		urxe_mr_revoke(mr, true);
		urxe_engine_unlock();
		urxe_direct_changed();
		urxe_place_put(&mr->place);
	}
	free_region(mr);
	return 0;
}

/*
 * A region that somebody registered in a domain which is imported here (ibv_import_mr(3)). Within
 * one process its keys work already. Otherwise they are made to work here: what they lead to must
 * be a file that can be mapped (device memory, or a pool that neighbours map), as pages of another
 * process that are its own cannot be. Its address is NULL, as the manual page has it.
 */
struct ibv_mr *urxe_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	struct urxe_mr *mr = new_region(pd, NULL, 0, 0, 0);
	struct mempool_row row;
	struct ibv_mr *ibv;
	int ret;

	if (!mr)
		return NULL;
	mr->ibv.lkey = mr->ibv.rkey = mr->ibv.handle = handle;
	mr->place = (struct urxe_place){0};
	ret = mempool_table_get(urxe_hca.table, handle, &row);
	if (!ret && row.pd == to_pd(pd)->number && row.kind == MEMPOOL_REGION) {
		mr->imported = URXE_MR_SHARED;
		CDS_INIT_LIST_HEAD(&mr->node);
		urxe_pd_use(to_pd(pd), 1);
		return &mr->ibv;
	}
	mr->imported = URXE_MR_MAPPED;
	urxe_engine_lock();
	ret = urxe_direct_import(handle, to_pd(pd)->number, &row, &mr->mapping);
	urxe_engine_unlock();
	if (ret) {
		free(mr);
		return urxe_fail(-ret);
	}
	mr->ibv.addr = mr->mapping.at + mr->mapping.offset;
	mr->ibv.length = row.length;
	mr->iova = row.iova;
	mr->access = row.access & ACCESS_TABLE;
	ibv = enter(mr);
	if (ibv)
		ibv->addr = NULL;
	return ibv;
}

/* The region stays, and its keys where it was registered. */
void urxe_unimport_mr(struct ibv_mr *ibv)
{
	struct urxe_mr *mr = to_mr(ibv);

	if (mr->imported == URXE_MR_SHARED)
		free_region(mr);
	else if (mr->imported == URXE_MR_MAPPED)
		urxe_dereg_mr(ibv);
}

#define REREG_KNOWN \
	(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS)

/* What libibverbs refuses before it asks a device. */
static bool rereg_input_ok(const struct urxe_mr *mr, int flags, const struct ibv_pd *pd,
			   const void *addr, size_t length, int access)
{
	if (!flags || (flags & ~REREG_KNOWN) || mr->null)
		return false;
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length))
		return false;
	if ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr->ibv.context))
		return false;
	return !access || (flags & IBV_REREG_MR_CHANGE_ACCESS);
}

/* Keeps its keys; what fails before anything changed leaves the old registration valid. */
int urxe_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access)
{
	struct urxe_mr *mr = to_mr(ibv), next = *mr;
	struct mempool_row row;
	struct urxe_place old;
	int ret = 0;

	if (urxe_inherited(mr->forks)) {
		errno = EIO;
		return IBV_REREG_MR_ERR_CMD;
	}
	if (!rereg_input_ok(mr, flags, pd, addr, length, access)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if ((mr->dm && (flags & IBV_REREG_MR_CHANGE_TRANSLATION)) || mr->imported != URXE_MR_OWN) {
		errno = EOPNOTSUPP;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
		ret = access_check(access);
		next.access = access;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		next.ibv.addr = addr;
		next.ibv.length = length;
		next.iova = next.access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	}
	if (flags & IBV_REREG_MR_CHANGE_PD)
		next.ibv.pd = pd;
	if (!ret)
		ret = find_memory(&next);
	if (ret) {
		errno = -ret;
		return IBV_REREG_MR_ERR_CMD;
	}
	fill_row(&row, &next);
	urxe_engine_lock();
	if (mr->windows) {
		urxe_engine_unlock();
		urxe_place_put(&next.place);
		errno = EBUSY;
		return IBV_REREG_MR_ERR_INPUT;
	}
	pthread_mutex_lock(&urxe_regions_lock);
	ret = mempool_table_replace(urxe_hca.table, ibv->lkey, &row);
	pthread_mutex_unlock(&urxe_regions_lock);
	if (!ret) {
		if (next.ibv.pd != ibv->pd) {
			urxe_pd_use(to_pd(next.ibv.pd), 1);
			urxe_pd_use(to_pd(ibv->pd), -1);
		}
		ibv->pd = next.ibv.pd;
		ibv->addr = next.ibv.addr;
		ibv->length = next.ibv.length;
		mr->access = next.access;
		mr->iova = next.iova;
		old = mr->place;
		mr->place = next.place;
	}
	urxe_engine_unlock();
	if (ret)
		errno = -ret;
	else
		urxe_direct_changed();
	urxe_place_put(ret ? &next.place : &old);
	return ret ? IBV_REREG_MR_ERR_CMD : 0;
}

/* Advice to fetch pages ahead is given to the kernel. A page that is not there is an error for a
 * caller that waits for it. */
static int prefetch(uint64_t va, uint64_t length, bool write, bool wait)
{
	uintptr_t page = sysconf(_SC_PAGESIZE), start = va & ~(page - 1);
	int ret = populate(start, va + length, write);

	return wait && ret == -EFAULT ? EFAULT : 0;
}

/* Of regions on demand alone pages are fetched ahead; keys of others
 * are unknown, as mlx5 has it. */
static int check_on_demand(uint32_t lkey)
{
	struct mempool_row row;

	/* There is no table in a forked child whose engine could not start. */
	if (!urxe_hca.table || mempool_table_get(urxe_hca.table, lkey, &row))
		return ENOENT;
	if (row.kind != MEMPOOL_REGION)
		return EINVAL;
	return row.access & (URXE_RESIDENT | URXE_NULL) ? ENOENT : 0;
}

int urxe_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		   struct ibv_sge *sges, uint32_t n)
{
	static const int refusals[] = {
		[RMEMPOOL_NO_KEY] = ENOENT,
		[RMEMPOOL_WRONG_PD] = EPERM,
		[RMEMPOOL_OUT_OF_BOUNDS] = EFAULT,
		[RMEMPOOL_NO_RIGHTS] = EPERM,
	};
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	int ret = 0;

	if (advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return EOPNOTSUPP;
	if (!n || !sges || (flags & ~IBV_ADVISE_MR_FLAG_FLUSH))
		return EINVAL;
	for (uint32_t i = 0; i < n && !ret; i++) {
		uint64_t va;

		ret = check_on_demand(sges[i].lkey);
		if (!ret)
			ret = refusals[mempool_table_match(
				urxe_hca.table, sges[i].lkey, to_pd(pd)->number, 0, sges[i].addr,
				sges[i].length, write ? RMEMPOOL_LOCAL_WRITE : 0, false, &va)];
		if (!ret && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
			ret = prefetch(va, sges[i].length, write, flags);
	}
	return ret;
}
