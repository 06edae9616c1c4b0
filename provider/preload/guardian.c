/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * liburxe.so as a program: the guardian of a host segment (host/guardian.h). It sleeps while all is
 * well, as a process of one thread that only maps the segment, and looks now and then whether the
 * others live. When one has died, it joins the segment as any process does and starts a connection
 * manager. That is told of the dead as any survivor's is, and says DREQ in their name; when it is
 * done the guardian leaves the segment again.
 *
 * The kernel enters here, after the dynamic linker, which has run the constructors of the libraries
 * that this one needs, but not its own. All signals are blocked (host/guardian.c).
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cm/connection.h"
#include "cm/manager.h"
#include "hca/adapter.h"
#include "hca/dead_qp.h"
#include "hca/gsi.h"
#include "host/guardian.h"
#include "host/libc.h"
#include "host/log.h"
#include "preload/preload.h"

#define LOOK_MS	  200 /* a death is noticed after this at the latest */
#define PACE_MS	  20
#define TRIES	  50 /* to join the segment */
#define STAY_NS	  1000000000ull
#define LINGER_NS 10000000000ull /* peers that do not answer are not waited for any longer */

#if defined(__x86_64__)
#define LINKER	       "/lib64/ld-linux-x86-64.so.2"
#define AT_ENTRY_POINT __attribute__((force_align_arg_pointer))
#elif defined(__aarch64__)
#define LINKER "/lib/ld-linux-aarch64.so.1"
#define AT_ENTRY_POINT
#endif

#ifdef LINKER

/* What makes a shared library a program: who links it, and where it begins (meson.build). */
static const char interp[] __attribute__((section(".interp"), used)) = LINKER;

/*
 * Has all been said in the name of the dead, and been answered? The answer to a peer's own DREQ may
 * have been lost, or the peer may be dying as well, so stay a while after each death.
 */
static bool is_done(struct urxe_segment *seg, uint64_t *stay)
{
	struct urxe_cm_counts counts;
	uint64_t now = urxe_now();
	unsigned qps;
	bool dead;

	urxe_guardian_look(seg, &dead);
	urxe_engine_lock();
	if (dead) {
		urxe_adapter_reap();
		*stay = now + STAY_NS;
	} else {
		urxe_gsi_housekeep();
	}
	urxe_cm_counts(urxe_manager(), &counts);
	qps = urxe_dead_qp_run(now);
	urxe_engine_unlock();
	return now >= *stay && !counts.unanswered && !qps;
}

static bool speak_for_the_dead(struct urxe_segment *seg)
{
	const struct timespec pace = {.tv_nsec = PACE_MS * 1000000};
	uint64_t until = urxe_now() + LINGER_NS, stay = urxe_now() + STAY_NS;

	if (urxe_manager_get()) {
		nanosleep(&pace, NULL);
		return false;
	}
	while (!is_done(seg, &stay) && urxe_now() < until)
		nanosleep(&pace, NULL);
	urxe_manager_end();
	return true;
}

static void guard(void)
{
	struct urxe_segment *seg;
	unsigned failed = 0;
	bool dead;

	if (urxe_segment_view(&seg) || urxe_guardian_begin(seg))
		return;
	while (!urxe_guardian_end(seg) && failed < TRIES) {
		urxe_guardian_wait(seg, LOOK_MS);
		urxe_guardian_look(seg, &dead);
		/* In another segment these dead would never be found, and
		 * this would go on for ever. */
		if (dead && !urxe_guardian_can_join(seg))
			return;
		if (dead)
			failed = speak_for_the_dead(seg) ? 0 : failed + 1;
	}
}

/* Called by nobody but the kernel. */
__attribute__((used, noreturn)) AT_ENTRY_POINT void urxe_guardian_entry(void);

AT_ENTRY_POINT void urxe_guardian_entry(void)
{
	syscall(SYS_setsid);
	urxe_loaded();
	prctl(PR_SET_NAME, "urxe-guardian");
	guard();
	for (;;)
		syscall(SYS_exit_group, 0);
}

/* A program may leave the folder that it was started in. */
void urxe_guardian_init(void)
{
	const char *path = NULL;
	Dl_info info;

	if (dladdr((const void *)urxe_guardian_init, &info))
		path = info.dli_fname[0] == '/' ? info.dli_fname : realpath(info.dli_fname, NULL);
	urxe_guardian_program(path, interp);
}

#else

void urxe_guardian_init(void)
{
}

#endif
