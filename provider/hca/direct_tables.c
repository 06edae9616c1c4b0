// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * This process's own tables, as neighbours see them (direct_private.h): the registration table and
 * the QP rows, in a memfd; ordinary memory where there can be none, and then nobody sees them.
 *
 * Rows of QPs are written under the engine lock, the registration table under its own, the epoch by
 * whoever took something away.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "hca/direct_private.h"
#include "hca/direct_rseq.h"
#include "hca/memory.h"
#include "host/fd.h"
#include "host/libc.h"
#include "host/log.h"

static struct direct_tables *tables;
static int memfd = -1;
static _Atomic bool living; /* the service thread holds the mutex of life */

bool direct_enabled(void)
{
	const char *wire = getenv("URXE_WIRE");

	return urxe_rseq_available() && !(wire && !strcmp(wire, "udp"));
}

static size_t tables_bytes(void)
{
	return sizeof(struct direct_tables) + mempool_table_bytes(URXE_MAX_MR);
}

static int open_memfd(size_t bytes)
{
	int fd;

	if (!direct_enabled())
		return -1;
	fd = memfd_create("urxe-tables", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (!urxe_fd_size(fd, bytes) &&
	    !urxe_libc.fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return urxe_fd_keep(fd);
	urxe_libc.close(fd);
	return -1;
}

static int init_life(struct direct_tables *t)
{
	pthread_mutexattr_t attr;
	int err = pthread_mutexattr_init(&attr);

	if (err)
		return -err;
	err = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (!err)
		err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (!err)
		err = pthread_mutex_init(&t->life, &attr);
	pthread_mutexattr_destroy(&attr);
	return -err;
}

static int init_tables(struct direct_tables *t)
{
	int ret = init_life(t);

	/* After a fork it may be held by a thread that is not there. */
	pthread_mutex_init(&urxe_regions_lock, NULL);
	if (!ret)
		ret = mempool_table_init(t + 1, URXE_MAX_MR, &urxe_hca.table);
	if (!ret && getrandom(t->cookie, sizeof(t->cookie), 0) != sizeof(t->cookie))
		ret = -EIO;
	t->bytes = tables_bytes();
	t->max_rows = URXE_MAX_MR;
	t->version = DIRECT_VERSION;
	t->magic = DIRECT_MAGIC;
	return ret;
}

int urxe_direct_start(void)
{
	size_t bytes = tables_bytes();
	void *p = MAP_FAILED;
	int ret;

	memfd = open_memfd(bytes);
	if (memfd >= 0)
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd, 0);
	if (p == MAP_FAILED) {
		urxe_fd_close(memfd);
		memfd = -1;
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	if (p == MAP_FAILED)
		return -ENOMEM;
	madvise(p, bytes, MADV_DONTFORK);
	tables = p;
	direct_objects_reset(tables);
	ret = init_tables(tables);
	if (ret) {
		munmap(p, bytes);
		urxe_fd_close(memfd);
		memfd = -1;
		return ret;
	}
	if (memfd >= 0)
		direct_window_open(memfd, tables);
	return 0;
}

void urxe_direct_stop(void)
{
	direct_peers_drop();
	direct_window_close();
	direct_objects_reset(NULL);
	munmap(tables, tables_bytes());
	urxe_fd_close(memfd);
	memfd = -1;
	tables = NULL;
	urxe_hca.table = NULL;
}

/*
 * What the child inherited of its parent's objects asks a table of its own, in which nothing is. The
 * parent's was not inherited, and something else may lie there by now. It stays for as long as the
 * child lives: urxe_direct_start() makes another.
 */
void urxe_direct_forked(void)
{
	void *p = mmap(NULL, tables_bytes(), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	tables = p == MAP_FAILED ? NULL : p;
	atomic_store(&living, false);
	urxe_hca.table = NULL;
	if (!tables || init_tables(tables))
		urxe_log(URXE_LOG_WARN, "no memory after a fork");
	direct_objects_reset(tables);
	direct_peers_forked();
	direct_window_forked();
	urxe_fd_close(memfd);
	memfd = -1;
}

void urxe_direct_alive(void)
{
	pthread_mutex_lock(&tables->life);
	atomic_store(&living, true);
}

bool urxe_direct_is_alive(void)
{
	return atomic_load(&living);
}

void urxe_direct_dead(void)
{
	atomic_store(&living, false);
	pthread_mutex_unlock(&tables->life);
}

void urxe_direct_changed(void)
{
	atomic_fetch_add(&tables->epoch, 1);
	direct_window_wait();
}

/* ---- QP rows ---- */

static struct direct_qp *row_of(const struct urxe_qp *qp)
{
	return &tables->qps[qp->qpn >> 8];
}

/* A QP takes requests from RTR on (IBTA vol. 1, 10.3.1). */
static enum direct_service service_of(const struct urxe_qp *qp)
{
	int state = atomic_load(&qp->state);

	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return DIRECT_NONE;
	switch (qp->ibv.qp_type) {
	case IBV_QPT_RC: return DIRECT_RC;
	case IBV_QPT_UC: return DIRECT_UC;
	default: return DIRECT_NONE;
	}
}

static void set_gid(_Atomic uint64_t to[2], const struct in6_addr *gid)
{
	uint64_t words[2];

	memcpy(words, gid, sizeof(words));
	atomic_store_explicit(&to[0], words[0], memory_order_relaxed);
	atomic_store_explicit(&to[1], words[1], memory_order_relaxed);
}

static bool same_gid(const _Atomic uint64_t is[2], const struct in6_addr *gid)
{
	uint64_t words[2];

	memcpy(words, gid, sizeof(words));
	return atomic_load_explicit(&is[0], memory_order_relaxed) == words[0] &&
	       atomic_load_explicit(&is[1], memory_order_relaxed) == words[1];
}

static bool row_fits(const struct direct_qp *row, const struct urxe_qp *qp)
{
	return row->qpn == qp->qpn && row->dest_qpn == qp->attr.dest_qp_num &&
	       row->access == qp->attr.qp_access_flags && row->pd == qp->pd->number &&
	       same_gid(row->sgid, &qp->path.sgid) && same_gid(row->dgid, &qp->path.dgid);
}

void urxe_direct_retract(struct urxe_qp *qp)
{
	struct direct_qp *row = row_of(qp);

	if (atomic_load_explicit(&row->service, memory_order_relaxed) == DIRECT_NONE)
		return;
	atomic_store(&row->service, DIRECT_NONE);
	urxe_direct_changed();
}

void urxe_direct_publish(struct urxe_qp *qp)
{
	struct direct_qp *row = row_of(qp);
	enum direct_service service = service_of(qp);

	if (service == atomic_load_explicit(&row->service, memory_order_relaxed) &&
	    (service == DIRECT_NONE || row_fits(row, qp)))
		return;
	urxe_direct_retract(qp);
	row->qpn = qp->qpn;
	row->dest_qpn = qp->attr.dest_qp_num;
	row->access = qp->attr.qp_access_flags;
	row->pd = qp->pd->number;
	set_gid(row->sgid, &qp->path.sgid);
	set_gid(row->dgid, &qp->path.dgid);
	atomic_store(&row->service, service);
}
