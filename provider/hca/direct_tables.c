// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * This process's own tables, as neighbours see them (direct_private.h): the registration table and
 * the QP rows, in a memfd; ordinary memory where there can be none, and then nobody sees them.
 *
 * Rows of QPs are written under the engine lock, the registration table under its own, the epoch by
 * the thread that took something away.
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

static int init_tables(struct direct_tables *t)
{
	int ret = urxe_shared_mutex_init(&t->life);

	if (!ret)
		ret = mempool_table_init(t + 1, URXE_MAX_MR, &urxe_hca.table);
	if (!ret && getrandom(t->cookie, sizeof(t->cookie), 0) != sizeof(t->cookie))
		ret = -EIO;
	t->bytes = direct_tables_bytes();
	t->max_rows = URXE_MAX_MR;
	t->version = DIRECT_VERSION;
	t->magic = DIRECT_MAGIC;
	return ret;
}

int urxe_direct_start(void)
{
	size_t bytes = direct_tables_bytes();
	void *p = MAP_FAILED;
	int ret;

	memfd = direct_enabled() ? urxe_fd_memfd("urxe-tables", bytes) : -1;
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
	munmap(tables, direct_tables_bytes());
	urxe_fd_close(memfd);
	memfd = -1;
	tables = NULL;
	urxe_hca.table = NULL;
}

/*
 * What the child inherited of its parent's objects asks a table of its own, in which nothing is.
 * The parent's was not inherited, and something else may lie there by now. It stays for as long as
 * the child lives: urxe_direct_start() makes another.
 */
void urxe_direct_forked(void)
{
	void *p = mmap(NULL, direct_tables_bytes(), PROT_READ | PROT_WRITE,
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

uint64_t urxe_direct_change(void)
{
	atomic_fetch_add(&tables->epoch, 1);
	return direct_window_note();
}

void urxe_direct_changed(void)
{
	atomic_fetch_add(&tables->epoch, 1);
	urxe_direct_wait();
}

/* ---- QP rows ---- */

static struct direct_qp *row_of(const struct urxe_qp *qp)
{
	return &tables->qps[urxe_qpn_index(qp->proto.qpn)];
}

/* A QP takes requests from RTR on (IBTA vol. 1, 10.3.1). */
static enum direct_service service_of(const struct urxe_qp *qp)
{
	int state = atomic_load(&qp->proto.state);

	if (state != IBV_QPS_RTR && state != IBV_QPS_RTS && state != IBV_QPS_SQD)
		return DIRECT_NONE;
	return qp->transport->direct;
}

static void set_addr(_Atomic uint64_t to[2], const struct urxe_link_addr *addr)
{
	atomic_store_explicit(&to[0], addr->word[0], memory_order_relaxed);
	atomic_store_explicit(&to[1], addr->word[1], memory_order_relaxed);
}

static bool row_fits(const struct direct_qp *row, const struct urxe_qp *qp)
{
	return row->qpn == qp->proto.qpn && row->dest_qpn == qp->proto.attr.dest_qp_num &&
	       row->access == qp->proto.attr.qp_access_flags && row->pd == qp->pd->number &&
	       row->pkey == urxe_qp_pkey(qp) && direct_addr_is(row->src, &qp->proto.path.src) &&
	       direct_addr_is(row->dst, &qp->proto.path.dst);
}

/* A reader of the row by the new epoch finds NONE in it, or all of what it says next. */
void urxe_direct_retract(struct urxe_qp *qp)
{
	struct direct_qp *row = row_of(qp);

	if (atomic_load_explicit(&row->service, memory_order_relaxed) == DIRECT_NONE ||
	    row->qpn != qp->proto.qpn)
		return;
	atomic_store(&row->service, DIRECT_NONE);
	qp->direct.ticket = urxe_direct_change();
}

void urxe_direct_publish(struct urxe_qp *qp)
{
	struct direct_qp *row = row_of(qp);
	enum direct_service service = service_of(qp);

	if (service == atomic_load_explicit(&row->service, memory_order_relaxed) &&
	    (service == DIRECT_NONE || row_fits(row, qp)))
		return;
	urxe_direct_retract(qp);
	row->qpn = qp->proto.qpn;
	row->dest_qpn = qp->proto.attr.dest_qp_num;
	row->access = qp->proto.attr.qp_access_flags;
	row->pd = qp->pd->number;
	row->pkey = urxe_qp_pkey(qp);
	set_addr(row->src, &qp->proto.path.src);
	set_addr(row->dst, &qp->proto.path.dst);
	atomic_store(&row->service, service);
}
