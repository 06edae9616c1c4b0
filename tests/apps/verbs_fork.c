// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The child of a fork that happens while another thread is in a verb: whatever mutex that
 * thread has, the child, where it is not, can use the verb. And a child that has too few
 * descriptors for an engine.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "verbs_test.h"

/* ibv_close_xrcd() finds its function by the context of a domain; the compiler
 * sees that it could be NULL. */
#pragma GCC diagnostic ignored "-Wnull-dereference"

/* ---- a thread that stops when it has taken a mutex ---- */

#define STOPS_MS 100 /* at most: what a fork waits for goes on then */

static __thread unsigned mutexes_to_go; /* until it stops; 0: it does not */
static __thread bool ahead;		/* of the fork */
static sem_t stopped, go_on;
static atomic_bool ended;

static bool is_in(const char *library, const void *code)
{
	Dl_info info;

	return dladdr(code, &info) && strstr(info.dli_fname, library);
}

/* In front of libc's. A child may find libibverbs' own mutex taken: the thread takes
 * none before the fork is over. */
__attribute__((visibility("default"))) int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static _Atomic(__typeof__(pthread_mutex_lock) *) next;
	__typeof__(pthread_mutex_lock) *lock = atomic_load(&next);
	struct timespec until;
	int ret;

	if (!lock) {
		lock = (__typeof__(lock))dlsym(RTLD_NEXT, "pthread_mutex_lock");
		atomic_store(&next, lock);
	}
	if (ahead && is_in("libibverbs", __builtin_return_address(0)))
		ahead = sem_wait(&go_on);
	ret = lock(mutex);
	if (mutexes_to_go && is_in("liburxe", __builtin_return_address(0)) && !--mutexes_to_go) {
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += STOPS_MS * 1000000;
		until.tv_sec += until.tv_nsec / 1000000000;
		until.tv_nsec %= 1000000000;
		sem_post(&stopped);
		ahead = sem_timedwait(&go_on, &until);
	}
	return ret;
}

/* ---- verbs ---- */

static struct ibv_counters *counters;

static void list_devices(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	NEED(list && *list);
	ibv_free_device_list(list);
}

static void register_region(void)
{
	static uint8_t bytes[64];
	struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);

	NEED(mr);
	EXPECT(ibv_dereg_mr(mr), 0);
}

static void make_null_region(void)
{
	struct ibv_mr *mr = ibv_alloc_null_mr(pd);

	NEED(mr);
	EXPECT(ibv_dereg_mr(mr), 0);
}

static void count(void)
{
	struct ibv_counter_attach_attr attr = {.counter_desc = IBV_COUNTER_BYTES, .index = 1};
	uint64_t values[2];

	EXPECT(ibv_attach_counters_point_flow(counters, &attr, NULL), 0);
	EXPECT(ibv_read_counters(counters, values, 2, 0), 0);
}

static struct ibv_xrcd *open_domain(void)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask =
						  IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(ctx, &attr);

	NEED(xrcd);
	return xrcd;
}

static void open_and_close_domain(void)
{
	EXPECT(ibv_close_xrcd(open_domain()), 0);
}

static void allocate_device_memory(void)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(ctx, &attr);

	NEED(dm);
	EXPECT(ibv_free_dm(dm), 0);
}

static void open_and_close(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *other;

	NEED(list && *list);
	other = ibv_open_device(*list);
	NEED(other);
	EXPECT(ibv_close_device(other), 0);
	ibv_free_device_list(list);
}

struct how {
	void (*verb)(void);
	unsigned at;
};

static void *run_verb(void *of)
{
	struct how *how = of;

	mutexes_to_go = how->at;
	how->verb();
	if (mutexes_to_go)
		atomic_store(&ended, true);
	mutexes_to_go = 0;
	sem_post(&stopped);
	return of;
}

static void use_in_child(void (*verb)(void))
{
	pid_t pid = fork();
	int status;

	NEED(pid >= 0);
	if (!pid) {
		alarm(10);
		failures = 0;
		verb();
		_exit(failures != 0);
	}
	sem_post(&go_on);
	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status, 0);
}

static unsigned mutexes; /* so far */

/* Forks when the thread that does it has taken its first mutex, then its
 * second, until there are no more. */
static void fork_within(void (*verb)(void), const char *name)
{
	struct how how = {verb, 0};
	int before = failures;

	atomic_store(&ended, false);
	while (!atomic_load(&ended) && failures == before) {
		pthread_t thread;

		how.at++;
		NEED(!sem_init(&stopped, 0, 0) && !sem_init(&go_on, 0, 0));
		NEED(!pthread_create(&thread, NULL, run_verb, &how));
		NEED(!sem_wait(&stopped));
		if (!atomic_load(&ended))
			use_in_child(verb);
		NEED(!pthread_join(thread, NULL));
	}
	if (failures != before)
		printf("%s: %s, mutex %u\n", current_case, name, how.at);
	mutexes += how.at - 1;
}

static void within_verbs(void)
{
	struct ibv_counters_init_attr init = {0};

	NEED(counters = ibv_create_counters(ctx, &init));
	fork_within(list_devices, "devices");
	fork_within(register_region, "region");
	fork_within(make_null_region, "null region");
	fork_within(open_and_close_domain, "XRC domain");
	fork_within(allocate_device_memory, "device memory");
	fork_within(open_and_close, "open");
	fork_within(count, "counters");
	EXPECT_TRUE(mutexes >= 20);
	EXPECT(ibv_destroy_counters(counters), 0);
}

/* The engine starts and stops. */
static void within_first_open_and_last_close(void)
{
	EXPECT(ibv_dealloc_pd(pd), 0);
	EXPECT(ibv_close_device(ctx), 0);
	ctx = NULL;
	mutexes = 0;
	fork_within(open_and_close, "open");
	EXPECT_TRUE(mutexes >= 20);
	open_urxe();
}

/* ---- descriptors ---- */

#define DOMAINS 128

/* In the child: each descriptor that it may have more lets the engine come further, until it
 * starts. In between the child works with what it inherited. */
static void start_with_few(struct ibv_xrcd **domains)
{
	struct ibv_sge sge = {.lkey = 1, .length = 1};
	struct rlimit limit;
	struct ibv_pd *own = NULL;
	int n;

	alarm(60);
	failures = 0;
	NEED(!getrlimit(RLIMIT_NOFILE, &limit));
	for (n = 0; n < DOMAINS && !own; n++) {
		limit.rlim_cur = 3 + n;
		NEED(!setrlimit(RLIMIT_NOFILE, &limit));
		own = ibv_alloc_pd(ctx);
		if (!own)
			EXPECT(errno, EMFILE);
		EXPECT(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), ENOENT);
		EXPECT(ibv_close_xrcd(domains[n]), 0);
	}
	EXPECT_TRUE(n > 1 && own);
	register_region();
	_exit(failures != 0);
}

static void few_descriptors(void)
{
	struct ibv_xrcd *domains[DOMAINS];
	int status;
	pid_t pid;

	for (int i = 0; i < DOMAINS; i++)
		domains[i] = open_domain();
	NEED((pid = fork()) >= 0);
	if (!pid)
		start_with_few(domains);
	NEED(waitpid(pid, &status, 0) == pid);
	EXPECT(status, 0);
	for (int i = 0; i < DOMAINS; i++)
		EXPECT(ibv_close_xrcd(domains[i]), 0);
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"within_verbs", within_verbs},
		{"within_first_open_and_last_close", within_first_open_and_last_close},
		{"few_descriptors", few_descriptors},
	};

	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
