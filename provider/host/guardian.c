// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Starting the guardian so that its program notices nothing, and what the guardian asks the
 * segment.
 *
 * It is started by two clones. The first child has no exit signal, so that no wait() of the program
 * finds it and no SIGCHLD tells of it; it makes the second one and exits, and is taken away here by
 * the one kind of wait that finds such children. The second child, which init adopts, executes the
 * guardian, with no descriptor of the program and in "/". Both run in the program's memory until
 * then, as vfork's child does: the program may be large, and have many threads.
 *
 * So the thread that starts it waits until the children have had a processor, which on a busy
 * machine may take long. It is the service thread, without the engine lock, under which everything
 * of the process would stand still meanwhile. For the same reason the guardian begins its own
 * session when it has been executed: Linux may schedule sessions as groups, and one whose threads
 * give way again and again (sched_yield(2)) has been seen to keep another from a processor for half
 * a minute (6.18).
 *
 * Whoever starts it takes the guardian's lock first, through an open file description that the
 * guardian inherits. So of all processes that find none at the same time one starts one, and if
 * it cannot be executed, the lock ends with its process.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "host/elf_symbols.h"
#include "host/fd.h"
#include "host/guardian.h"
#include "host/log.h"
#include "host/segment_layout.h"
#include "host/ticks.h"

#define STACK	   65536
#define AT_ONCE	   1
#define LOOK_EVERY 1000000000ull  /* ns; also until a second one is started */
#define AGAIN_MAX  64000000000ull /* twice as long each time, to this */
#define MAX_ENV	   32
#define LOCK_FD	   3 /* of the guardian: the segment's file, locked at the guardian's byte */

static const char *program, *linker;
static char *guardian_env[MAX_ENV + 1];

struct launch {
	int lock;
	char *argv[3]; /* of the program; of the linker */
	uint8_t stacks[2][STACK] __attribute__((aligned(64)));
};

void urxe_guardian_program(const char *path, const char *its_linker)
{
	program = path;
	linker = its_linker;
}

/* ---- starting it ---- */

/* All but the lock. */
URXE_UNINSTRUMENTED static void close_all(int lock)
{
	if (lock == LOCK_FD)
		syscall(SYS_fcntl, lock, F_SETFD, 0);
	else
		syscall(SYS_dup3, lock, LOCK_FD, 0);
	if (syscall(SYS_close_range, LOCK_FD + 1u, ~0u, 0))
		for (int fd = LOCK_FD + 1; fd < 65536; fd++)
			syscall(SYS_close, fd);
	for (int fd = 0; fd < LOCK_FD; fd++)
		syscall(SYS_close, fd);
	syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	syscall(SYS_dup, 0);
	syscall(SYS_dup, 0);
}

URXE_UNINSTRUMENTED static int execute(void *arg)
{
	struct launch *l = arg;

	syscall(SYS_chdir, "/");
	close_all(l->lock);
	syscall(SYS_execve, program, l->argv, guardian_env);
	/* A package may have installed the library as one that cannot be executed. */
	syscall(SYS_execve, linker, l->argv, guardian_env);
	syscall(SYS_exit, 1);
	return 1;
}

URXE_UNINSTRUMENTED static int orphan(void *arg)
{
	struct launch *l = arg;
	int pid = clone(execute, l->stacks[1] + STACK, CLONE_VM | CLONE_VFORK, l);

	syscall(SYS_exit, pid < 0);
	return 0;
}

/*
 * What decides where the segment is and which devices there are. No LD_PRELOAD. By a thread that
 * needs a guardian: the one that starts it must not read the environment while another one may
 * write to it. The strings stay (setenv(3) of glibc frees none).
 */
static void take_env(void)
{
	static const char *const names[] = {"URXE_",	     "XDG_RUNTIME_DIR=", "XDG_CONFIG_HOME=",
					    "HOME=",	     "LD_LIBRARY_PATH=", "ASAN_OPTIONS=",
					    "TSAN_OPTIONS=", "LSAN_OPTIONS=",	 "UBSAN_OPTIONS="};
	unsigned n = 0;

	for (char **e = environ; e && *e && n < MAX_ENV; e++)
		for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (!strncmp(*e, names[i], strlen(names[i]))) {
				guardian_env[n++] = *e;
				break;
			}
	guardian_env[n] = NULL;
}

static int launch(int lock)
{
	struct launch *l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	int saved = errno, pid, status = 0, ret = 0;
	sigset_t all, old;

	if (l == MAP_FAILED)
		return -ENOMEM;
	l->lock = lock;
	l->argv[0] = (char *)"urxe-guardian";
	l->argv[1] = (char *)program;
	/* They stay blocked in the guardian: only SIGKILL ends it before its time. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(orphan, l->stacks[0] + STACK, CLONE_VM | CLONE_VFORK, l);
	if (pid < 0)
		ret = -errno;
	else if (syscall(SYS_wait4, pid, &status, __WCLONE, NULL) == pid && status)
		ret = -ECHILD;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	munmap(l, sizeof(*l));
	errno = saved;
	return ret;
}

/*
 * The children of process 1 and of a subreaper that lose their parent become theirs: the guardian
 * would be found by wait(). With process 1 it would be killed, too, before it could do anything.
 */
static bool would_adopt(void)
{
	int subreaper = 0;

	return getpid() == 1 || prctl(PR_GET_CHILD_SUBREAPER, &subreaper) || subreaper;
}

/* The file's lock among threads. */
static bool there_is_one(struct urxe_segment *seg)
{
	int fd = segment_file_fd(seg);

	return fd < 0 || segment_file_locked(fd, GUARDIAN_BYTE, 1);
}

/* By a description of its own; -1: there is a guardian, or it would not find the segment, which was
 * removed or replaced. */
static int lock_byte(struct urxe_segment *seg)
{
	int lock = -1;

	pthread_mutex_lock(&seg->lock);
	if (!there_is_one(seg) && segment_file_is_current(seg))
		lock = urxe_fd_keep(segment_file_reopen(seg));
	pthread_mutex_unlock(&seg->lock);
	if (lock >= 0 && segment_file_lock(lock, GUARDIAN_BYTE, true)) {
		urxe_fd_close(lock);
		lock = -1;
	}
	return lock;
}

void urxe_guardian_keep(struct urxe_segment *seg, uint64_t now)
{
	uint64_t at = atomic_load_explicit(&seg->guard_at, memory_order_acquire);
	int lock, ret;

	if (!at || now < at)
		return;
	lock = lock_byte(seg);
	if (lock < 0) {
		atomic_store(&seg->guard_at, now + LOOK_EVERY);
		return;
	}
	seg->guard_wait = seg->guard_wait ? seg->guard_wait * 2 : LOOK_EVERY;
	if (seg->guard_wait > AGAIN_MAX)
		seg->guard_wait = AGAIN_MAX;
	atomic_store(&seg->guard_at, now + seg->guard_wait);
	ret = launch(lock);
	urxe_fd_close(lock);
	if (ret)
		urxe_log(
			URXE_LOG_INFO,
			"cannot start %s: %s: should this process be killed, its peers find out by "
			"their own retries",
			program, strerror(-ret));
}

/* libtsan takes a child that shares the memory for one of a fork, and forgets who has which
 * lock. */
#ifdef __SANITIZE_THREAD__
#define CAN_LAUNCH false
#else
#define CAN_LAUNCH true
#endif

void urxe_guardian_want(struct urxe_segment *seg)
{
	if (!CAN_LAUNCH || atomic_load_explicit(&seg->guard_at, memory_order_relaxed) || !program ||
	    !seg->slot || would_adopt())
		return;
	take_env();
	atomic_store_explicit(&seg->guard_at, AT_ONCE, memory_order_release);
}

bool urxe_guardian_is_wanted(const struct urxe_segment *seg)
{
	return atomic_load_explicit(&seg->guard_at, memory_order_relaxed) == AT_ONCE;
}

/* ---- being it ---- */

void urxe_guardian_notify(struct urxe_segment *seg)
{
	uint32_t *left = &seg->map->header.left;

	__atomic_add_fetch(left, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, left, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void urxe_guardian_wait(struct urxe_segment *seg, unsigned ms)
{
	struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	uint32_t *left = &seg->map->header.left, seen = __atomic_load_n(left, __ATOMIC_ACQUIRE);
	bool dead;

	if (urxe_guardian_look(seg, &dead) && !dead)
		syscall(SYS_futex, left, FUTEX_WAIT, seen, &ts, NULL, 0);
}

int urxe_guardian_begin(struct urxe_segment *seg)
{
	return segment_file_adopt(seg, LOCK_FD) ?: segment_file_lock(seg->fd, GUARDIAN_BYTE, true);
}

unsigned urxe_guardian_look(struct urxe_segment *seg, bool *dead)
{
	unsigned alive = 0;

	*dead = false;
	for (unsigned s = URXE_SLOT_FIRST; s <= urxe_slots.last; s++) {
		if (!urxe_segment_slot_life(seg, s))
			continue;
		if (urxe_segment_slot_alive(seg, s))
			alive++;
		else
			*dead = true;
	}
	return alive;
}

bool urxe_guardian_can_join(const struct urxe_segment *seg)
{
	return segment_file_is_current(seg);
}

bool urxe_guardian_end(struct urxe_segment *seg)
{
	bool dead, last;

	urxe_segment_lock(seg);
	last = !urxe_guardian_look(seg, &dead) && !dead;
	if (last) {
		segment_file_remove(seg);
		segment_file_unlock(seg->fd, GUARDIAN_BYTE);
	}
	urxe_segment_unlock(seg);
	return last;
}
