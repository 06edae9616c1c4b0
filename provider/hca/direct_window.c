// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The window of this process: where neighbours learn of its tables and leave their hazards, and the
 * wait for those (direct_private.h has the picture and the order of events).
 *
 * A wait must end though an initiator may have died, or been stopped, in the middle of an access:
 *
 *	dead		its slot's file lock is gone, and with it its memory: nothing comes any more.
 *	off the CPU	it works in a restartable sequence, so it looks at the epoch again before it
 *			goes on. A thread that is stopped (T) is on its way out of the kernel. One that
 *			sleeps (S, D) or is traced (t) may be inside the system call that copies:
 *			then, and only then, it is waited for, but not longer than PATIENCE.
 *	runnable	it runs, or will soon: it is waited for.
 *
 * Any thread may wait, and none does so with the engine lock, under which everything of the process
 * stands still. The thread that has it takes a ticket and asks later whether what was under way is
 * over.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "hca/direct_private.h"
#include "host/libc.h"
#include "host/log.h"
#include "host/segment_window.h"
#include "host/sysinfo.h"

#define SPIN_NS	    20000u   /* before sleeping */
#define LOOK_NS	    1000000u /* between looks at what the thread does */
#define SLEEP_NS    50000u
#define PATIENCE_NS 10000000000ull /* with a thread that sleeps inside a system call */

static struct direct_window *window;

/* An access that was under way: it is over when its hazard has another word. */
struct access {
	unsigned slot;
	uint64_t word; /* 0: none */
	uint64_t start, looked;
};

/* Under the engine lock. */
static struct access noted[URXE_MAX_SLOTS];    /* by slot; those under way at the last ticket, */
static uint64_t is_noted[URXE_MAX_SLOTS / 64]; /* which have a bit here */
static uint64_t last_ticket;
static uint64_t spun; /* the last one that was waited for as long as an access takes as a rule */
static uint64_t over; /* all up to this one are */

void direct_window_open(int memfd, struct direct_tables *tables)
{
	int fd = urxe_window_create(urxe_hca.seg, URXE_WINDOW_TABLES, sizeof(*window));
	struct urxe_stat st;
	void *p = NULL;

	if (fd < 0)
		return;
	if (!urxe_window_back(fd, 0, offsetof(struct direct_window, hazards)) &&
	    !urxe_fstat(memfd, &st))
		p = urxe_window_map(fd, 0, sizeof(*window));
	urxe_libc.close(fd);
	if (!p) {
		urxe_window_remove(urxe_hca.seg, URXE_WINDOW_TABLES);
		return;
	}
	window = p;
	window->ino = st.ino;
	window->dev = st.dev;
	window->cookie_at = (uintptr_t)tables->cookie;
	window->pid = getpid();
	window->fd = memfd;
	__atomic_store_n(&window->magic, DIRECT_MAGIC, __ATOMIC_RELEASE);
}

/* Neighbours that look at the tables no longer find anybody alive there; those in the middle
 * end. */
void direct_window_close(void)
{
	if (!window)
		return;
	urxe_direct_wait();
	urxe_window_remove(urxe_hca.seg, URXE_WINDOW_TABLES);
	munmap(window, sizeof(*window));
	window = NULL;
	memset(is_noted, 0, sizeof(is_noted));
}

/* The mapping was not inherited. */
void direct_window_forked(void)
{
	window = NULL;
	memset(is_noted, 0, sizeof(is_noted));
}

/* ---- waiting ---- */

#define TASK_TEXT 2048 /* of a file below /proc/PID/task/TID */

/* Reads one of those; false when it cannot be read. */
static bool read_task(uint32_t pid, uint32_t tid, const char *name, char text[TASK_TEXT])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u/%s", pid, tid, name);
	return urxe_read_file(path, text, TASK_TEXT) > 0;
}

/* The thread's state as ps(1) has it, 0 when it cannot be found out. */
static char thread_state(uint32_t pid, uint32_t tid)
{
	char text[TASK_TEXT], *end;

	if (!read_task(pid, tid, "stat", text))
		return 0;
	/* Behind the name, which may have any characters in it. */
	end = strrchr(text, ')');
	return end && end[1] == ' ' ? end[2] : 0;
}

/* Is a thread that sleeps, or is traced, known to be outside of the call that copies? */
static bool outside_call(uint32_t pid, uint32_t tid)
{
	char text[TASK_TEXT];
	int number;

	if (!read_task(pid, tid, "syscall", text) || sscanf(text, "%d", &number) != 1)
		return false;
	return number != SYS_process_vm_readv && number != SYS_process_vm_writev;
}

/* Will the thread look at the epoch before it copies another byte? waited: ns. */
static bool harmless(const struct direct_hazard *hazard, uint64_t word, uint64_t waited)
{
	uint32_t pid = atomic_load_explicit(&hazard->pid, memory_order_relaxed);
	uint32_t tid = atomic_load_explicit(&hazard->tid, memory_order_relaxed);

	switch (thread_state(pid, tid)) {
	case 'T':
	case 'Z':
	case 'X': return true;
	case 'R': return false;
	case 0: break;
	default:
		if (!(word & DIRECT_CALLS) || outside_call(pid, tid))
			return true;
	}
	if (waited < PATIENCE_NS)
		return false;
	urxe_log(URXE_LOG_WARN, "process %u has been in the middle of a copy for long: not waiting",
		 pid);
	return true;
}

static bool dead(const struct direct_hazard *hazard, unsigned slot)
{
	return urxe_segment_slot_life(urxe_hca.seg, slot) != atomic_load(&hazard->life) ||
	       !urxe_segment_slot_alive(urxe_hca.seg, slot);
}

static bool is_over(struct access *a, uint64_t now)
{
	struct direct_hazard *hazard = &window->hazards[a->slot];

	if (!a->word || atomic_load(&hazard->word) != a->word)
		return true;
	if (now - a->looked < LOOK_NS)
		return false;
	a->looked = now;
	return dead(hazard, a->slot) || harmless(hazard, a->word, now - a->start);
}

static void wait_for(struct access *a)
{
	struct timespec ts = {.tv_nsec = SLEEP_NS};
	uint64_t now;

	while (now = urxe_now(), !is_over(a, now)) {
		if (now - a->start < SPIN_NS)
			sched_yield();
		else
			nanosleep(&ts, NULL);
	}
}

/* The next access that is under way, from a slot on; URXE_MAX_SLOTS: there is none. */
static unsigned next_access(struct access *a, unsigned slot)
{
	const struct direct_window *w = window;
	uint32_t words = atomic_load(&w->reader_words) & ~0u << slot / 64 & DIRECT_READER_WORDS;

	for (; words; words &= words - 1) {
		unsigned i = __builtin_ctz(words);
		uint64_t readers = atomic_load(&w->readers[i]);

		if (i == slot / 64)
			readers &= ~0ull << slot % 64;
		for (; readers; readers &= readers - 1) {
			a->slot = i * 64 + __builtin_ctzll(readers);
			a->word = atomic_load(&w->hazards[a->slot].word);
			if (!(a->word & DIRECT_BUSY))
				continue;
			a->start = a->looked = urxe_now();
			return a->slot;
		}
	}
	return URXE_MAX_SLOTS;
}

void urxe_direct_wait(void)
{
	struct access a;

	for (unsigned slot = 0; window && (slot = next_access(&a, slot)) < URXE_MAX_SLOTS; slot++)
		wait_for(&a);
}

/* ---- without waiting; under the engine lock ---- */

uint64_t direct_window_note(void)
{
	struct access a;
	bool any = false;

	for (unsigned slot = 0; window && (slot = next_access(&a, slot)) < URXE_MAX_SLOTS; slot++) {
		if (!(is_noted[slot / 64] >> slot % 64 & 1) || noted[slot].word != a.word)
			noted[slot] = a;
		is_noted[slot / 64] |= 1ull << slot % 64;
		any = true;
	}
	return any ? ++last_ticket : 0;
}

static bool look(uint64_t now)
{
	for (unsigned word = 0; window && word < URXE_MAX_SLOTS / 64; word++)
		while (is_noted[word]) {
			unsigned bit = __builtin_ctzll(is_noted[word]);

			if (!is_over(&noted[word * 64 + bit], now))
				return false;
			is_noted[word] &= ~(1ull << bit);
		}
	over = last_ticket;
	return true;
}

bool urxe_direct_over(uint64_t ticket)
{
	uint64_t start, now;

	if (ticket <= over)
		return true;
	for (start = now = urxe_now(); !look(now); now = urxe_now()) {
		if (ticket <= spun)
			return false;
		if (now - start >= SPIN_NS)
			spun = last_ticket;
		sched_yield();
	}
	return true;
}
