/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "hca/engine.h"
#include "hca/lost_memory.h"
#include "hca/memory.h"
#include "host/fd.h"
#include "host/libc.h"

#define PATIENCE 10000 /* turns that another thread gets to leave the lists of regions */

static uintptr_t page_size = 4096;

/*
 * The file of one page that is put wherever memory is missed. Afterwards it is truncated: nothing
 * is there again, but for a signal of another number, and what a program has mapped there meanwhile
 * stays untouched. Engine lock.
 */
static int stand_in = -1;

/* What can have become of an address: nothing is mapped there, more is asked of it than its mapping
 * allows, or its file has no such page (or no room for one). */
enum loss { NO_LOSS, UNMAPPED, PROTECTED, NO_PAGE };

/* ---- in the handler ---- */

static bool has_engine(void)
{
	return atomic_load(&urxe_hca.holder) == owned_lock_self();
}

/* The mutex names its owner: no thread pays for being found here. */
static bool has(const pthread_mutex_t *lock)
{
	return lock->__data.__owner == gettid();
}

static bool lock_regions(void)
{
	for (unsigned i = 0; i < PATIENCE && !has(&urxe_regions_lock); i++) {
		if (!pthread_mutex_trylock(&urxe_regions_lock))
			return true;
		sched_yield();
	}
	return false;
}

static bool is_at(const struct urxe_mr *mr, uintptr_t addr)
{
	return !mr->null && !mr->dm && mr->imported == URXE_MR_OWN &&
	       addr - (uintptr_t)mr->ibv.addr < mr->ibv.length;
}

/* Notes the regions that have lost this address; those registered on demand lose nothing by it.
 * Returns how it has to be mapped for what is asked of it to go on; PROT_NONE when no region has
 * it. */
static int lose(uintptr_t addr)
{
	struct urxe_context *ctx;
	struct urxe_mr *mr;
	int prot = PROT_NONE;

	if (!lock_regions())
		return PROT_NONE;
	cds_list_for_each_entry (ctx, &urxe_hca.contexts, node) {
		for (unsigned i = 0; i < URXE_MR_BUCKETS; i++) {
			cds_list_for_each_entry (mr, &ctx->mrs[i], node) {
				if (!is_at(mr, addr))
					continue;
				mr->lost = !(mr->access & IBV_ACCESS_ON_DEMAND);
				prot |= PROT_READ;
				if (mr->access & IBV_ACCESS_LOCAL_WRITE)
					prot |= PROT_WRITE;
			}
		}
	}
	pthread_mutex_unlock(&urxe_regions_lock);
	return prot;
}

static void open_stand_in(void)
{
	int fd = syscall(SYS_memfd_create, "urxe lost memory", MFD_CLOEXEC);

	if (fd < 0)
		return;
	if (urxe_fd_size(fd, page_size))
		urxe_libc.close(fd);
	else
		stand_in = urxe_fd_keep(fd);
}

/* True as well when another thread was faster. Without a stand-in the page stays. */
static bool put_page(void *at, int flags)
{
	void *page;

	if (stand_in < 0)
		open_stand_in();
	flags |= stand_in < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	page = mmap(at, page_size, PROT_READ | PROT_WRITE, flags, stand_in, 0);
	if (page == at)
		return true;
	if (page != MAP_FAILED)
		munmap(page, page_size); /* before Linux 4.17 it is only a wish */
	return page == MAP_FAILED && errno == EEXIST;
}

static bool mend(uintptr_t addr, enum loss loss)
{
	void *at = (void *)(addr & ~(page_size - 1));
	int prot = lose(addr);

	if (prot == PROT_NONE)
		return false;
	switch (loss) {
	case UNMAPPED: return put_page(at, MAP_FIXED_NOREPLACE);
	case PROTECTED: return !mprotect(at, page_size, prot);
	default: return put_page(at, MAP_FIXED);
	}
}

static enum loss loss_of(int number, int code)
{
	if (number == SIGBUS)
		return code == BUS_ADRERR ? NO_PAGE : NO_LOSS;
	return code == SEGV_MAPERR ? UNMAPPED : code == SEGV_ACCERR ? PROTECTED : NO_LOSS;
}

/* It is the program's: the default action, at the same instruction. */
static void pass_on(int number, const siginfo_t *info)
{
	struct sigaction action = {.sa_handler = SIG_DFL};

	sigaction(number, &action, NULL);
	if (info->si_code <= 0)
		raise(number); /* somebody has sent it: there is no fault to be repeated */
}

static void on_fault(int number, siginfo_t *info, void *context)
{
	enum loss loss = loss_of(number, info->si_code);
	int saved = errno;

	if (loss && has_engine() && mend((uintptr_t)info->si_addr, loss))
		urxe_payload_lost = true;
	else
		pass_on(number, info);
	errno = saved;
}

static void watch(int number)
{
	struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK},
			 was;

	if (!sigaction(number, NULL, &was) && !(was.sa_flags & SA_SIGINFO) &&
	    was.sa_handler == SIG_DFL)
		sigaction(number, &ours, NULL);
}

void urxe_lost_memory_watch(void)
{
	static atomic_flag done = ATOMIC_FLAG_INIT;

	if (atomic_flag_test_and_set(&done))
		return;
	page_size = sysconf(_SC_PAGESIZE);
	watch(SIGSEGV);
	watch(SIGBUS);
}

void urxe_lost_memory_look(const struct iovec *iov, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uintptr_t at = (uintptr_t)iov[i].iov_base, end = at + iov[i].iov_len;

		for (; at < end; at = (at & ~(page_size - 1)) + page_size)
			__atomic_fetch_or((uint8_t *)at, 0, __ATOMIC_RELAXED);
	}
}

/* ---- afterwards ---- */

/* In the child of a fork. Another thread of the parent may have been copying: its stand-in is the
 * parent's to truncate, and what it missed is nothing to this process. */
void urxe_lost_memory_forked(void)
{
	urxe_payload_lost = false;
	urxe_fd_close(stand_in);
	stand_in = -1;
}

/* Whatever is asked of it lies beyond it. Under urxe_regions_lock. */
static void void_key(uint32_t key)
{
	struct mempool_row row;

	if (mempool_table_get(urxe_hca.table, key, &row))
		return;
	row.length = 0;
	mempool_table_replace(urxe_hca.table, key, &row);
}

static void void_region(struct urxe_mr *mr)
{
	struct urxe_mw *mw;

	void_key(mr->ibv.lkey);
	mr->lost = false;
	for (unsigned i = 0; mr->windows && i < URXE_MW_BUCKETS; i++)
		cds_list_for_each_entry (mw, &urxe_hca.windows[i], node)
			if (mw->bound_to && mw->mr == mr)
				void_key(mw->bound_to);
}

/* Always true. */
bool urxe_lost_memory_void(void)
{
	struct urxe_context *ctx;
	struct urxe_mr *mr;

	urxe_payload_lost = false;
	if (stand_in >= 0) {
		(void)!ftruncate(stand_in, 0);
		urxe_fd_close(stand_in);
		stand_in = -1;
	}
	pthread_mutex_lock(&urxe_regions_lock);
	cds_list_for_each_entry (ctx, &urxe_hca.contexts, node)
		for (unsigned i = 0; i < URXE_MR_BUCKETS; i++)
			cds_list_for_each_entry (mr, &ctx->mrs[i], node)
				if (mr->lost)
					void_region(mr);
	pthread_mutex_unlock(&urxe_regions_lock);
	urxe_direct_change();
	return true;
}
