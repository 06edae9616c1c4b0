// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Direct access from below: restartable sequences, the rows of QPs as neighbours see them, and the
 * wait for neighbours that are in the middle of an access, or were when they stopped or died.
 *
 * Initiators are children with an engine of their own, made before this process has threads. Each
 * does what its number says.
 */
#include "wire_test.h"
#include "qp_test.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hca/direct_private.h"
#include "hca/direct_rseq.h"
#include "host/segment_window.h"
#include "mempool/row.h"

enum role { SPINS, STOPS, DIES, SLEEPS_OUTSIDE, SLEEPS_INSIDE, ENDS, HOLDS, HOLDS_TOO, ROLES };

static struct shared {
	_Atomic unsigned target; /* slot */
	struct child {
		_Atomic bool start, holds, refused, clear;
		_Atomic unsigned slot;
		pid_t pid;
	} children[ROLES];
	/* For the sequence that is stopped. */
	_Atomic uint64_t epoch, copies, aborted;
	_Atomic bool copying;
} * shared;

#define LONG (2u << 20)

static uint8_t *window; /* LONG bytes that all share */

#define SOON(cond)                                               \
	do {                                                     \
		for (int ms = 0; ms < 10000 && !(cond); ms += 1) \
			pause_ms(1);                             \
		assert_true(cond);                               \
	} while (0)

/* ---- restartable sequences ---- */

static const uint32_t life = 7;

static struct urxe_guard guard_of(const _Atomic uint64_t *epoch)
{
	return (struct urxe_guard){.epoch = (const void *)epoch,
				   .epoch_is = atomic_load(epoch),
				   .life = &life,
				   .life_is = life};
}

/* Begins anew as often as it takes. */
static long copy_surely(void *dst, const void *src, size_t len, const struct urxe_guard *guard)
{
	long ret;

	do
		ret = urxe_rseq_copy(dst, src, len, dst, guard);
	while (ret == URXE_RSEQ_ABORTED);
	return ret;
}

static void a_sequence_copies_all_of_it(void **state)
{
	static uint8_t src[5000], dst[5100];
	_Atomic uint64_t epoch = 1;
	struct urxe_guard guard = guard_of(&epoch);
	static const size_t lengths[] = {0, 1, 7, 8, 15, 16, 17, 63, 64, 1000, 4096, 4999};

	for (unsigned i = 0; i < sizeof(src); i++)
		src[i] = 1 + i % 255;
	for (unsigned k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
		size_t len = lengths[k];

		memset(dst, 0, sizeof(dst));
		assert_int_equal(copy_surely(dst + 3, src + 1, len, &guard), 0);
		assert_memory_equal(dst + 3, src + 1, len);
		for (size_t i = 0; i < sizeof(dst); i++)
			assert_true((i >= 3 && i < 3 + len) || !dst[i]);
	}
}

static void a_sequence_looks_first(void **state)
{
	uint8_t src[16] = "new", dst[16] = "old";
	_Atomic uint64_t epoch = 1;
	struct urxe_guard guard = guard_of(&epoch);
	struct iovec local = {src, sizeof(src)}, remote = {dst, sizeof(dst)};

	atomic_store(&epoch, 2);
	assert_int_equal(copy_surely(dst, src, sizeof(src), &guard), URXE_RSEQ_STALE);
	assert_int_equal(urxe_rseq_vm(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1,
				      &guard),
			 URXE_RSEQ_STALE);
	guard = guard_of(&epoch);
	guard.life_is++;
	assert_int_equal(copy_surely(dst, src, sizeof(src), &guard), URXE_RSEQ_STALE);
	assert_int_equal(urxe_rseq_vm(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1,
				      &guard),
			 URXE_RSEQ_STALE);
	assert_string_equal((char *)dst, "old");
}

static void a_sequence_ends_in_the_call(void **state)
{
	uint8_t src[16] = "new", dst[16] = "old";
	_Atomic uint64_t epoch = 1;
	struct urxe_guard guard = guard_of(&epoch);
	struct iovec local = {src, sizeof(src)}, remote = {dst, sizeof(dst)};
	long ret;

	do
		ret = urxe_rseq_vm(SYS_process_vm_writev, getpid(), &local, 1, &remote, 1, &guard);
	while (ret == URXE_RSEQ_ABORTED);
	if (ret == -EPERM || ret == -ENOSYS)
		skip();
	assert_int_equal(ret, sizeof(src));
	assert_string_equal((char *)dst, "new");
	remote.iov_base = NULL;
	do
		ret = urxe_rseq_vm(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, &guard);
	while (ret == URXE_RSEQ_ABORTED);
	assert_int_equal(ret, -EFAULT);
}

/* Stores these bytes and no others, whatever their alignment; nothing when a word has changed. */
static void a_sequence_commits_bytes(void **state)
{
	uint64_t words[4];
	uint8_t *dst = (uint8_t *)words;
	static const uint8_t src[] = {1, 2, 3, 4, 5, 6, 7, 8};
	_Atomic uint64_t epoch = 1;
	struct urxe_guard guard = guard_of(&epoch);
	long ret;

	for (size_t len = 1; len <= 8; len++) {
		for (size_t at = 0; at < 16; at++) {
			memset(words, 0, sizeof(words));
			do
				ret = urxe_rseq_commit(dst + at, src, len, &guard);
			while (ret == URXE_RSEQ_ABORTED);
			assert_int_equal(ret, 0);
			for (size_t i = 0; i < sizeof(words); i++)
				assert_int_equal(dst[i], i >= at && i < at + len ? src[i - at] : 0);
		}
	}
	atomic_store(&epoch, 2);
	memset(words, 0, sizeof(words));
	while ((ret = urxe_rseq_commit(dst, src, 8, &guard)) == URXE_RSEQ_ABORTED)
		;
	assert_int_equal(ret, URXE_RSEQ_STALE);
	while ((ret = urxe_rseq_commit(dst, src, 3, &guard)) == URXE_RSEQ_ABORTED)
		;
	assert_int_equal(ret, URXE_RSEQ_STALE);
	assert_int_equal(words[0], 0);
}

static void a_sequence_computes(void **state)
{
	uint64_t word = 40, value = 2;
	_Atomic uint64_t epoch = 1;
	struct urxe_guard guard = guard_of(&epoch);
	long ret;

	while (urxe_rseq_fetch_add(&word, &value, &guard) == URXE_RSEQ_ABORTED)
		assert_int_equal(value, 2);
	assert_int_equal(word, 42);
	assert_int_equal(value, 40);
	while (urxe_rseq_compare_swap(&word, &value, 7, &guard) == URXE_RSEQ_ABORTED)
		assert_int_equal(value, 40);
	assert_int_equal(word, 42);
	assert_int_equal(value, 42);
	while (urxe_rseq_compare_swap(&word, &value, 7, &guard) == URXE_RSEQ_ABORTED)
		;
	assert_int_equal(word, 7);
	assert_int_equal(value, 42);
	atomic_store(&epoch, 2);
	while ((ret = urxe_rseq_fetch_add(&word, &value, &guard)) == URXE_RSEQ_ABORTED)
		;
	assert_int_equal(ret, URXE_RSEQ_STALE);
	value = 7;
	while ((ret = urxe_rseq_compare_swap(&word, &value, 1, &guard)) == URXE_RSEQ_ABORTED)
		;
	assert_int_equal(ret, URXE_RSEQ_STALE);
	assert_int_equal(word, 7);
}

static void copier(void)
{
	static uint8_t src[LONG];
	uint8_t value = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;; value++) {
		struct urxe_guard guard = guard_of(&shared->epoch);

		if (guard.epoch_is & 1) {
			pause_ms(1);
			continue;
		}
		memset(src, value, sizeof(src));
		atomic_store(&shared->copying, true);
		if (urxe_rseq_copy(window, src, sizeof(src), window, &guard) == URXE_RSEQ_ABORTED)
			atomic_fetch_add(&shared->aborted, 1);
		atomic_store(&shared->copying, false);
		atomic_fetch_add(&shared->copies, 1);
	}
}

static pid_t copier_pid;

/* It is stopped wherever it is, the epoch moves on, and it goes on: it must not store another byte.
 * */
static void a_stopped_thread_looks_again(void **state)
{
	static uint8_t before[LONG];
	unsigned inside = 0, tries;
	siginfo_t info;

	for (tries = 0; tries < 2000 && inside < 40; tries++) {
		usleep(random() % 1500);
		assert_int_equal(kill(copier_pid, SIGSTOP), 0);
		assert_int_equal(waitid(P_PID, copier_pid, &info, WSTOPPED), 0);
		if (!atomic_load(&shared->copying)) {
			kill(copier_pid, SIGCONT);
			continue;
		}
		inside++;
		atomic_fetch_add(&shared->epoch, 1);
		memcpy(before, window, LONG);
		kill(copier_pid, SIGCONT);
		SOON(!atomic_load(&shared->copying));
		assert_memory_equal(before, window, LONG);
		atomic_fetch_add(&shared->epoch, 1);
	}
	assert_true(inside >= 10);
	assert_true(atomic_load(&shared->aborted) > 0);
	kill(copier_pid, SIGKILL);
	waitpid(copier_pid, NULL, 0);
}

/* ---- rows ---- */

static struct urxe_pd test_pd = {.number = 5};
static struct urxe_port test_port = {.pkeys = {0xffff}};

static struct urxe_qp *test_qp(void)
{
	static struct urxe_qp qp;

	memset(&qp, 0, sizeof(qp));
	qp.transport = urxe_transport_of(IBV_QPT_RC);
	qp.proto.qpn = 77 << 8 | urxe_segment_slot(urxe_hca.seg);
	qp.pd = &test_pd;
	qp.port = &test_port;
	qp.pkey = &test_port.pkeys[0];
	qp.proto.attr.dest_qp_num = 0x1234;
	qp.proto.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	inet_pton(AF_INET6, "::ffff:10.0.0.1", &qp.proto.path.src);
	inet_pton(AF_INET6, "::ffff:10.0.0.2", &qp.proto.path.dst);
	return &qp;
}

/* Our own tables, as a neighbour maps them. */
static struct direct_peer *own_peer(void)
{
	struct direct_peer *peer;

	urxe_engine_lock();
	peer = direct_peer_get(urxe_segment_slot(urxe_hca.seg));
	urxe_engine_unlock();
	if (!peer)
		skip();
	return peer;
}

static void publish_as(struct urxe_qp *qp, enum ibv_qp_state state)
{
	urxe_engine_lock();
	atomic_store(&qp->proto.state, state);
	urxe_direct_publish(qp);
	urxe_engine_unlock();
}

static void rows_follow_their_qps(void **state)
{
	struct direct_peer *peer = own_peer();
	const struct direct_qp *row = &peer->tables->qps[77];
	struct urxe_qp *qp = test_qp();
	uint64_t epoch = peer->tables->epoch;

	publish_as(qp, IBV_QPS_INIT);
	assert_int_equal(row->service, DIRECT_NONE);
	publish_as(qp, IBV_QPS_RTR);
	assert_int_equal(row->service, DIRECT_RC);
	assert_int_equal(row->qpn, qp->proto.qpn);
	assert_int_equal(row->dest_qpn, 0x1234);
	assert_int_equal(row->access, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(row->pd, 5);
	assert_memory_equal((void *)row->src, &qp->proto.path.src, 16);
	assert_memory_equal((void *)row->dst, &qp->proto.path.dst, 16);
	publish_as(qp, IBV_QPS_RTS);
	/* So far nothing was taken away. */
	assert_int_equal(peer->tables->epoch, epoch);
	qp->proto.attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	publish_as(qp, IBV_QPS_RTS);
	assert_int_equal(peer->tables->epoch, epoch + 1);
	assert_int_equal(row->access, IBV_ACCESS_REMOTE_READ);
	urxe_engine_lock();
	urxe_direct_retract(qp);
	urxe_direct_retract(qp);
	urxe_engine_unlock();
	assert_int_equal(row->service, DIRECT_NONE);
	assert_int_equal(peer->tables->epoch, epoch + 2);
}

static void datagrams_have_no_row(void **state)
{
	struct direct_peer *peer = own_peer();
	struct urxe_qp *qp = test_qp();

	qp->transport = urxe_transport_of(IBV_QPT_UD);
	publish_as(qp, IBV_QPS_RTS);
	assert_int_equal(peer->tables->qps[77].service, DIRECT_NONE);
}

static void regions_are_seen(void **state)
{
	struct direct_peer *peer = own_peer();
	struct mempool_row row = {.iova = 4096,
				  .length = 64,
				  .va = 8192,
				  .key = 0x123456,
				  .access = RMEMPOOL_REMOTE_WRITE,
				  .kind = MEMPOOL_REGION,
				  .pd = 5};
	uint64_t va;

	assert_int_equal(mempool_table_add(urxe_hca.table, &row), 0);
	assert_int_equal(mempool_table_match(peer->regions, row.key, 5, 1, 4100, 60,
					     RMEMPOOL_REMOTE_WRITE, true, &va),
			 RMEMPOOL_OK);
	assert_int_equal(va, 8196);
	assert_int_equal(mempool_table_remove(urxe_hca.table, row.key), 0);
	assert_int_equal(mempool_table_match(peer->regions, row.key, 5, 1, 4100, 60,
					     RMEMPOOL_REMOTE_WRITE, true, &va),
			 RMEMPOOL_NO_KEY);
}

/* ---- neighbours whose tables are not as they should be ---- */

static struct direct_tables *own_tables(void)
{
	return (struct direct_tables *)urxe_hca.table - 1;
}

/* As if the process were met for the first time. */
static bool is_met_anew(void)
{
	bool met;

	urxe_engine_lock();
	direct_peers_drop();
	met = direct_peer_get(urxe_segment_slot(urxe_hca.seg));
	urxe_engine_unlock();
	return met;
}

static void tables_that_grow_when_they_are_mapped(void **state)
{
	const struct direct_tables *seen = own_peer()->tables;
	size_t bytes = own_tables()->bytes;
	uint8_t *last = (uint8_t *)seen + bytes - 4096;

	assert_int_equal(msync(last, 4096, MS_ASYNC), 0);
	own_tables()->bytes = 4096;
	urxe_engine_lock();
	direct_peers_drop();
	urxe_engine_unlock();
	own_tables()->bytes = bytes;
	assert_int_equal(msync(last, 4096, MS_ASYNC), -1);
	assert_true(is_met_anew());
}

static void tables_that_lead_out_of_themselves(void **state)
{
	own_peer();
	urxe_hca.table->rest_offset[0] += 1ull << 40;
	assert_false(is_met_anew());
	urxe_hca.table->rest_offset[0] -= 1ull << 40;
	assert_true(is_met_anew());
}

/* Whether anybody writes to it or not. */
static void a_pipe_in_place_of_the_tables(void **state)
{
	struct direct_window *w = own_peer()->window;
	char name[] = "/tmp/urxe-pipe-XXXXXX";
	int memfd = w->fd, window_fd, fifo;

	window_fd = urxe_window_open(urxe_hca.seg, urxe_segment_slot(urxe_hca.seg),
				     URXE_WINDOW_TABLES, true, sizeof(*w));
	assert_true(window_fd >= 0);
	assert_non_null(mkdtemp(name));
	assert_int_equal(rmdir(name), 0);
	assert_int_equal(mkfifo(name, 0600), 0);
	fifo = open(name, O_RDONLY | O_NONBLOCK);
	assert_true(fifo >= 0);
	w->fd = fifo;
	alarm(20);
	assert_false(is_met_anew());
	alarm(0);
	assert_int_equal(pwrite(window_fd, &memfd, sizeof(memfd),
				offsetof(struct direct_window, fd)),
			 sizeof(memfd));
	assert_true(is_met_anew());
	close(window_fd);
	close(fifo);
	unlink(name);
}

/* ---- objects ---- */

#define BLOCK 16384ul

/* A file in blocks, as libmempool has them. */
static struct {
	char *at;
	size_t bytes, hole; /* hole: a block that is of no file */
	int fd;
	uint64_t file, inode;
	enum rmempool_pages pages;
	bool resident;
	int held;
} pool = {.hole = SIZE_MAX};

__attribute__((visibility("default"))) int rmempool_hold(const void *addr, size_t length,
							 struct rmempool_hold *hold, size_t size)
{
	size_t offset = (const char *)addr - pool.at;

	if (!length || !pool.at || (const char *)addr < pool.at || offset >= pool.bytes ||
	    length > pool.bytes - offset ||
	    (offset / BLOCK <= pool.hole && (offset + length - 1) / BLOCK >= pool.hole))
		return -EINVAL;
	*hold = (struct rmempool_hold){
		.fd = pool.fd,
		.pages = pool.pages,
		.file = pool.file,
		.inode = pool.inode,
		.base = (uintptr_t)pool.at,
		.resident = pool.resident,
	};
	pool.held++;
	return 0;
}

__attribute__((visibility("default"))) void rmempool_release(const struct rmempool_hold *hold)
{
	pool.held--;
}

/* Shows a range; its object. */
static uint32_t show(struct urxe_place *place, const void *addr, size_t length)
{
	urxe_place_get(place, addr, length);
	urxe_place_show(place);
	return place->object;
}

/* What cannot be shown is let go of. */
static bool is_shown(const void *addr, size_t length)
{
	struct urxe_place place;
	bool shown = show(&place, addr, length);

	urxe_place_put(&place);
	return shown;
}

/* Another file by the same descriptor, at the same addresses. */
static void make_file(bool sealed)
{
	int fd = memfd_create("pool", MFD_ALLOW_SEALING);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4 * BLOCK), 0);
	if (sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	pool.at = mmap(pool.at, 4 * BLOCK, PROT_READ | PROT_WRITE,
		       MAP_SHARED | (pool.at ? MAP_FIXED : 0), fd, 0);
	assert_true(pool.at != MAP_FAILED);
	pool.bytes = 4 * BLOCK;
	if (!pool.fd)
		pool.fd = fcntl(fd, F_DUPFD, 100);
	else
		assert_int_equal(dup2(fd, pool.fd), pool.fd);
	close(fd);
	assert_int_equal(fstat(pool.fd, &st), 0);
	pool.inode = st.st_ino;
	pool.file++;
}

static uint8_t *object_at(struct direct_peer *peer, uint32_t id, size_t offset, size_t length)
{
	uint8_t *at;

	urxe_engine_lock();
	at = direct_object_at(peer, id, (uintptr_t)pool.at + offset, length);
	urxe_engine_unlock();
	return at;
}

static void objects_are_mapped(void **state)
{
	struct direct_peer *peer = own_peer();
	struct urxe_place place;
	uint32_t id, again;
	uint8_t *view;

	make_file(true);
	id = show(&place, pool.at + 100, 2 * BLOCK);
	assert_true(id);
	view = object_at(peer, id, 100, 2 * BLOCK);
	assert_non_null(view);
	assert_ptr_not_equal(view, pool.at + 100);
	pool.at[100] = 'a';
	assert_int_equal(view[0], 'a');
	view[1] = 'b';
	assert_int_equal(pool.at[101], 'b');
	assert_ptr_equal(object_at(peer, id, BLOCK, 1), view + BLOCK - 100);
	/* Not beyond it. */
	assert_null(object_at(peer, id, 100, 4 * BLOCK));
	assert_null(object_at(peer, id, 4 * BLOCK, 1));
	assert_null(object_at(peer, id, 0ul - 1, 2));
	/* A block that was given back reads as zeros. */
	assert_int_equal(fallocate(pool.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, BLOCK),
			 0);
	assert_int_equal(view[0], 0);
	/* It stays mapped from one region to the next. */
	urxe_place_put(&place);
	again = show(&place, pool.at, 1);
	assert_int_equal(again, id);
	assert_ptr_equal(object_at(peer, again, 100, 1), view);
	assert_int_equal(pool.held, 1);
	urxe_place_put(&place);
	assert_int_equal(pool.held, 0);
}

/* Whatever is behind an address or a descriptor now, an id means the file that it was given for. */
static void objects_are_not_confused(void **state)
{
	struct direct_peer *peer = own_peer();
	struct urxe_place first, second, place;
	uint32_t id, other;
	uint8_t *view;

	make_file(true);
	id = show(&first, pool.at, 4 * BLOCK);
	make_file(true);
	assert_null(object_at(peer, id, 0, 1)); /* it is mapped too late */
	other = show(&second, pool.at, 4 * BLOCK);
	assert_true(other && other != id);
	view = object_at(peer, other, 0, 1);
	assert_non_null(view);
	pool.at[0] = 'c';
	assert_int_equal(view[0], 'c');
	urxe_place_put(&first);
	urxe_place_put(&second);
	for (unsigned i = 0; i < 4 * DIRECT_OBJECTS; i++) {
		make_file(true);
		id = show(&place, pool.at, 1);
		assert_true(id);
		pool.at[0] = 'd';
		view = object_at(peer, id, 0, 1);
		assert_non_null(view);
		assert_int_equal(view[0], 'd');
		urxe_place_put(&place);
	}
}

static void what_is_no_object(void **state)
{
	struct urxe_place place, places[DIRECT_OBJECTS];
	struct direct_peer *peer = own_peer();
	uint64_t inode;

	make_file(true);
	assert_false(is_shown(pool.at, 0));
	assert_false(is_shown(pool.at, 4 * BLOCK + 1));
	assert_false(is_shown(&place, sizeof(place)));
	pool.hole = 2;
	assert_false(is_shown(pool.at, 3 * BLOCK));
	pool.hole = SIZE_MAX;
	/* Huge pages that may not be there. */
	pool.pages = RMEMPOOL_PAGES_2M;
	assert_false(is_shown(pool.at, 1));
	pool.pages = RMEMPOOL_PAGES_PLAIN;
	/* The program has closed the pool's file and opened another. */
	inode = pool.inode++;
	assert_false(is_shown(pool.at, 1));
	pool.inode = inode;
	assert_true(is_shown(pool.at, 1));
	assert_null(object_at(peer, 0, 0, 1));
	/* A file that may shrink is not mapped: that would be a signal. */
	make_file(false);
	assert_null(object_at(peer, show(&place, pool.at, 1), 0, 1));
	urxe_place_put(&place);
	/* No more than there is room for. */
	for (unsigned i = 0; i < DIRECT_OBJECTS; i++) {
		make_file(true);
		assert_true(show(&places[i], pool.at, 1));
	}
	make_file(true);
	assert_false(is_shown(pool.at, 1));
	for (unsigned i = 0; i < DIRECT_OBJECTS; i++)
		urxe_place_put(&places[i]);
	assert_true(is_shown(pool.at, 1));
	assert_int_equal(pool.held, 0);
}

#define FILES  (2 * DIRECT_OBJECTS) /* more than there is room for */
#define ROUNDS 300000

struct coming_and_going {
	pthread_t thread;
	const struct direct_object *objects;
	const struct urxe_place *places;
	unsigned shown, wrong;
};

static void make_places(struct urxe_place places[FILES], uint64_t file)
{
	for (unsigned i = 0; i < FILES; i++) {
		int fd = memfd_create("pool", 0);
		struct stat st;

		assert_true(fd >= 0 && !fstat(fd, &st));
		places[i] = (struct urxe_place){
			.hold = {.fd = fd, .file = file + i, .inode = st.st_ino},
			.known = true,
		};
	}
}

/* Two regions at a time, one in a file of both threads: its object keeps
 * it while either is there. */
static void *come_and_go(void *arg)
{
	struct coming_and_going *c = arg;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct urxe_place p[2] = {c->places[0], c->places[round % FILES]};

		for (unsigned i = 0; i < 2; i++)
			urxe_place_show(&p[i]);
		for (unsigned i = 0; i < 2; i++) {
			const struct direct_object *o = &c->objects[p[i].object % DIRECT_OBJECTS];

			if (!p[i].object)
				continue;
			c->shown++;
			c->wrong += atomic_load(&o->id) != p[i].object ||
				    atomic_load(&o->ino) != p[i].hold.inode;
		}
		for (unsigned i = 0; i < 2; i++)
			urxe_place_put(&p[i]);
	}
	return NULL;
}

static void an_object_with_regions_keeps_its_file(void **state)
{
	struct coming_and_going threads[2];
	struct urxe_place places[FILES];

	make_places(places, pool.file + 1);
	pool.file += FILES;
	for (unsigned i = 0; i < 2; i++) {
		threads[i] = (struct coming_and_going){.objects = own_peer()->tables->objects,
						       .places = places};
		assert_int_equal(pthread_create(&threads[i].thread, NULL, come_and_go, &threads[i]),
				 0);
	}
	for (unsigned i = 0; i < 2; i++) {
		pthread_join(threads[i].thread, NULL);
		/* Four regions at a time always find room. */
		assert_int_equal(threads[i].shown, 2 * ROUNDS);
		assert_int_equal(threads[i].wrong, 0);
	}
	for (unsigned i = 0; i < FILES; i++)
		close(places[i].hold.fd);
}

/* ---- hazards ---- */

static void sleep_inside(void)
{
	int fds[2];
	uint8_t byte;

	/* As far as anybody can tell from outside, any call is one that does not copy; only being
	 * traced would stop a thread in one that does. So: asleep in a call that is not it. */
	if (!pipe(fds))
		(void)!read(fds[0], &byte, 1);
}

static void be_child(enum role role)
{
	struct child *me = &shared->children[role];
	struct direct_peer *peer;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	SOON(atomic_load(&me->start));
	if (urxe_engine_get())
		_exit(1);
	atomic_store(&me->slot, urxe_segment_slot(urxe_hca.seg));
	urxe_engine_lock();
	peer = direct_peer_get(atomic_load(&shared->target));
	urxe_engine_unlock();
	if (!peer) {
		atomic_store(&me->refused, true);
		pause();
	}
	atomic_store(&peer->hazard->tid, (uint32_t)syscall(SYS_gettid));
	atomic_store(&peer->hazard->word, atomic_load(&peer->hazard->word) + DIRECT_BUSY +
						  (role == SLEEPS_INSIDE ? DIRECT_CALLS : 0));
	atomic_store(&me->holds, true);
	switch (role) {
	case STOPS: raise(SIGSTOP); break;
	case SLEEPS_OUTSIDE:
	case SLEEPS_INSIDE: sleep_inside(); break;
	default:
		while (!atomic_load(&me->clear))
			;
		atomic_store(&peer->hazard->word, (atomic_load(&peer->hazard->word) | 3) + 1);
		urxe_engine_put();
		_exit(0);
	}
	pause();
}

static struct child *start_child(enum role role)
{
	struct child *c = &shared->children[role];

	atomic_store(&shared->target, urxe_segment_slot(urxe_hca.seg));
	atomic_store(&c->start, true);
	SOON(atomic_load(&c->holds) || atomic_load(&c->refused));
	if (atomic_load(&c->refused))
		skip();
	return c;
}

static void *change(void *done)
{
	urxe_direct_changed();
	atomic_store((_Atomic bool *)done, true);
	return NULL;
}

static void end_child(struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
}

/* Returns whether a change comes to its end by itself. */
static void expect_no_wait(void)
{
	uint64_t began = urxe_now();

	urxe_direct_changed();
	assert_true(urxe_now() - began < 5000000000ull);
}

static void who_is_at_work_is_waited_for(void **state)
{
	struct child *c = start_child(SPINS);
	static _Atomic bool done;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, change, (void *)&done), 0);
	pause_ms(100);
	assert_false(atomic_load(&done));
	atomic_store(&c->clear, true);
	pthread_join(thread, NULL);
	assert_true(atomic_load(&done));
	waitpid(c->pid, NULL, 0);
}

static void who_is_stopped_is_not(void **state)
{
	struct child *c = start_child(STOPS);
	siginfo_t info;

	assert_int_equal(waitid(P_PID, c->pid, &info, WSTOPPED), 0);
	expect_no_wait();
	end_child(c);
}

static void who_is_dead_is_not(void **state)
{
	struct child *c = start_child(DIES);

	end_child(c);
	expect_no_wait();
	/* Nor when somebody has noticed. */
	urxe_segment_reap(urxe_hca.seg);
	expect_no_wait();
}

static void who_sleeps_outside_the_call_is_not(void **state)
{
	struct child *c = start_child(SLEEPS_OUTSIDE);

	expect_no_wait();
	end_child(c);
	c = start_child(SLEEPS_INSIDE);
	expect_no_wait();
	end_child(c);
}

/* ---- verbs while a neighbour is at work ---- */

static uint8_t buffer[4096];
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;

static void begin(void)
{
	ctx = open_lo();
	pd = urxe_alloc_pd(ctx);
	cq = urxe_create_cq(ctx, 16, NULL, NULL, 0);
	mr = urxe_reg_mr_iova2(pd, buffer, sizeof(buffer), (uintptr_t)buffer,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				       IBV_ACCESS_MW_BIND);
	assert_true(pd && cq && mr);
}

static void end(void)
{
	assert_int_equal(urxe_dereg_mr(mr), 0);
	assert_int_equal(urxe_destroy_cq(cq), 0);
	assert_int_equal(urxe_dealloc_pd(pd), 0);
	urxe_close_device(ctx);
}

/* A QP that neighbours may write through, with a receive posted. */
static struct ibv_qp *shown_qp(void)
{
	struct urxe_device *dev = lo_device();
	union ibv_gid own = gid_of("::ffff:127.0.0.1");
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = 0x12300,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh.dgid = own,
			    .grh.sgid_index = urxe_port_gid_index(dev->ports, &own)},
	};
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;
	struct ibv_qp *qp = small_qp(pd, cq, IBV_QPT_RC);

	enter_rtr(qp, &attr);
	enter_rts(qp, &attr);
	wr.wr_id = qp->qp_num;
	assert_int_equal(urxe_post_recv(qp, &wr, &bad), 0);
	return qp;
}

static int completions(struct ibv_wc *wc, int n)
{
	return urxe_poll_cq(cq, n, wc);
}

static struct ibv_mw *bound_window(struct ibv_qp *qp)
{
	struct ibv_mw *mw = urxe_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};

	if (!mw)
		abort();
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = mw->rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = mr,
		.addr = (uintptr_t)buffer,
		.length = sizeof(buffer),
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	assert_int_equal(urxe_post_send(qp, &wr, &bad), 0);
	for (int ms = 0; ms < 10000 && completions(&wc, 1) != 1; ms++)
		pause_ms(1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return mw;
}

/* A packet that the QP must refuse, after which it is in error: a READ, which it does not permit.
 * */
static void refuse(struct ibv_qp *ibv)
{
	struct urxe_qp *qp = to_qp(ibv);
	struct {
		struct urxe_bth bth;
		struct urxe_reth reth;
	} packet;
	struct urxe_rx_packet rx = {
		.bth = (const uint8_t *)&packet,
		.bytes = (const uint8_t *)&packet,
		.len = sizeof(packet),
		.span = 1,
		.path = {.src = qp->proto.path.dst, .dst = qp->proto.path.src},
	};

	urxe_bth_fill(&packet.bth, URXE_RC_READ_REQUEST, URXE_BTH_MIGREQ, 0, URXE_PKEY_DEFAULT,
		      qp->proto.qpn, true, 0);
	urxe_reth_fill(&packet.reth, (uintptr_t)buffer, mr->rkey, 8);
	urxe_engine_lock();
	urxe_dispatch(&rx, NULL);
	urxe_engine_unlock();
}

struct verb {
	void (*call)(void *object);
	void *object;
	_Atomic bool done;
	pthread_t thread;
};

static void *call_verb(void *arg)
{
	struct verb *v = arg;

	v->call(v->object);
	atomic_store(&v->done, true);
	return NULL;
}

static void destroy_qp(void *qp)
{
	urxe_destroy_qp(qp);
}

static void fail_qp(void *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	urxe_modify_qp(qp, &attr, IBV_QP_STATE);
}

static void dealloc_mw(void *mw)
{
	urxe_dealloc_mw(mw);
}

static void take_the_lock(void *unused)
{
	urxe_engine_lock();
	urxe_engine_unlock();
}

/*
 * What takes memory away ends only when the neighbour has ended, verbs and completions alike; but
 * nobody waits with the engine lock, so that all else goes on.
 */
static void nobody_waits_with_the_lock(void **state)
{
	struct ibv_send_wr inv = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct verb verbs[4] = {{.call = destroy_qp},
				{.call = fail_qp},
				{.call = dealloc_mw},
				{.call = take_the_lock}};
	struct ibv_qp *refused, *other;
	struct ibv_mw *mw;
	struct ibv_wc wc[4];
	unsigned flushed = 0;
	struct child *c;

	begin();
	verbs[0].object = shown_qp();
	verbs[1].object = shown_qp();
	refused = shown_qp();
	other = shown_qp();
	verbs[2].object = bound_window(other);
	mw = bound_window(other);
	inv.invalidate_rkey = mw->rkey;
	c = start_child(HOLDS);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&verbs[i].thread, NULL, call_verb, &verbs[i]), 0);
	SOON(atomic_load(&verbs[3].done));
	refuse(refused);
	assert_int_equal(urxe_post_send(other, &inv, &bad), 0);
	pause_ms(100);
	assert_int_equal(atomic_load(&to_qp(refused)->proto.state), IBV_QPS_ERR);
	assert_int_equal(completions(wc, 4), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_false(atomic_load(&verbs[i].done));
	atomic_store(&c->clear, true);
	for (unsigned i = 0; i < 4; i++)
		pthread_join(verbs[i].thread, NULL);
	waitpid(c->pid, NULL, 0);
	/* Flushed: the one that was modified and the one that refused; and the window's
	 * invalidation. */
	for (int ms = 0; ms < 10000 && flushed < 3; ms++, pause_ms(1))
		for (int n = completions(wc, 4); n > 0; n--, flushed++)
			assert_int_equal(wc[n - 1].status, wc[n - 1].opcode == IBV_WC_LOCAL_INV
								   ? IBV_WC_SUCCESS
								   : IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(flushed, 3);
	assert_int_equal(urxe_destroy_qp(verbs[1].object), 0);
	assert_int_equal(urxe_destroy_qp(refused), 0);
	assert_int_equal(urxe_destroy_qp(other), 0);
	urxe_dealloc_mw(mw);
	end();
}

static void close_device(void *context)
{
	urxe_close_device(context);
}

/* With a QP left behind. Another context is open, so that the engine goes on. */
static void closing_waits_without_the_lock(void **state)
{
	struct verb close = {.call = close_device}, lock = {.call = take_the_lock};
	static struct ibv_qp *volatile left_behind; /* for what looks for leaks */
	struct ibv_context *other;
	struct child *c;

	begin();
	other = urxe_open_device(ctx->device);
	assert_non_null(other);
	left_behind = shown_qp();
	assert_non_null(left_behind);
	close.object = ctx;
	c = start_child(HOLDS_TOO);
	assert_int_equal(pthread_create(&close.thread, NULL, call_verb, &close), 0);
	pause_ms(100);
	assert_int_equal(pthread_create(&lock.thread, NULL, call_verb, &lock), 0);
	SOON(atomic_load(&lock.done));
	assert_false(atomic_load(&close.done));
	atomic_store(&c->clear, true);
	pthread_join(close.thread, NULL);
	pthread_join(lock.thread, NULL);
	waitpid(c->pid, NULL, 0);
	urxe_close_device(other);
}

static uint32_t life_of(const struct direct_peer *peer)
{
	return __atomic_load_n((const uint32_t *)direct_life(peer->tables), __ATOMIC_ACQUIRE);
}

/* The kernel itself says so, before the process id can be anybody else's. */
static void death_changes_the_word_of_life(void **state)
{
	struct child *c = start_child(ENDS);
	struct direct_peer *peer;
	uint32_t tid;

	urxe_engine_lock();
	peer = direct_peer_get(atomic_load(&c->slot));
	urxe_engine_unlock();
	if (!peer)
		skip();
	SOON(life_of(peer));
	tid = life_of(peer);
	assert_int_equal(tid & ~FUTEX_TID_MASK, 0);
	end_child(c);
	assert_true(life_of(peer) != tid);
}

static void own_life(void **state)
{
	struct direct_peer *peer = own_peer();

	SOON(life_of(peer));
	assert_int_equal(kill(life_of(peer), 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sequence_copies_all_of_it),
		cmocka_unit_test(a_sequence_looks_first),
		cmocka_unit_test(a_sequence_ends_in_the_call),
		cmocka_unit_test(a_sequence_commits_bytes),
		cmocka_unit_test(a_sequence_computes),
		cmocka_unit_test(a_stopped_thread_looks_again),
		cmocka_unit_test(rows_follow_their_qps),
		cmocka_unit_test(datagrams_have_no_row),
		cmocka_unit_test(regions_are_seen),
		cmocka_unit_test(tables_that_grow_when_they_are_mapped),
		cmocka_unit_test(tables_that_lead_out_of_themselves),
		cmocka_unit_test(a_pipe_in_place_of_the_tables),
		cmocka_unit_test(objects_are_mapped),
		cmocka_unit_test(objects_are_not_confused),
		cmocka_unit_test(what_is_no_object),
		cmocka_unit_test(an_object_with_regions_keeps_its_file),
		cmocka_unit_test(own_life),
		cmocka_unit_test(who_is_at_work_is_waited_for),
		cmocka_unit_test(who_is_stopped_is_not),
		cmocka_unit_test(who_is_dead_is_not),
		cmocka_unit_test(who_sleeps_outside_the_call_is_not),
		cmocka_unit_test(nobody_waits_with_the_lock),
		cmocka_unit_test(closing_waits_without_the_lock),
		cmocka_unit_test(death_changes_the_word_of_life),
	};
	int ret;

	if (!urxe_rseq_available()) {
		printf("1..0 # SKIP no restartable sequences\n");
		return 0;
	}
	if (!own_host())
		return 0;
	unsetenv("URXE_WIRE");
	shared = mmap(NULL, sizeof(*shared) + LONG, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	window = (uint8_t *)(shared + 1);
	copier_pid = fork();
	if (!copier_pid)
		copier();
	for (unsigned i = 0; i < ROLES; i++) {
		pid_t pid = fork();

		if (!pid)
			be_child(i);
		shared->children[i].pid = pid; /* the memory is the child's as well */
	}
	if (urxe_engine_get())
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	urxe_engine_put();
	for (unsigned i = 0; i < ROLES; i++)
		kill(shared->children[i].pid, SIGKILL);
	kill(copier_pid, SIGKILL);
	return leave_host(ret);
}
