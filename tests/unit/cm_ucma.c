/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The commands of an rdma_cm file as far as they need no device: sizes, addresses, handles and the
 * errno values of the kernel's ucma_write() and its commands. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>

#include "cm/id.h"
#include "cm/ucma.h"
#include "hca/engine.h"
#include "host/libc.h"
#include "host/user_memory.h"

#define NO_SUCH_ID 4242
#define BAD	   ((uintptr_t)8) /* an address that nothing is at */

static struct urxe_ucma *file;
static int fd;

static int open_file(void **state)
{
	urxe_libc_init();
	assert_int_equal(urxe_ucma_open(&file), 0);
	fd = urxe_ucma_fd(file);
	return 0;
}

static int close_file(void **state)
{
	urxe_ucma_close(file);
	close(fd);
	return 0;
}

/* Writes a command whose header says that in bytes follow and there is room for out. */
static ssize_t write_to(struct urxe_ucma *to, uint32_t cmd, const void *body, size_t in, size_t out)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		uint8_t body[1024];
	} all = {.hdr = {cmd, in, out}};

	if (body)
		memcpy(all.body, body, in);
	return urxe_ucma_write(to, urxe_ucma_fd(to), &all, sizeof(all.hdr) + in);
}

static ssize_t create(struct urxe_ucma *to, uint16_t ps, uint32_t *handle)
{
	struct rdma_ucm_create_id cmd = {
		.uid = 1, .response = (uintptr_t)handle, .ps = ps, .qp_type = 2};

	return write_to(to, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), sizeof(*handle));
}

static ssize_t destroy(struct urxe_ucma *to, uint32_t handle, uint32_t *reported)
{
	struct rdma_ucm_destroy_id cmd = {.response = (uintptr_t)reported, .id = handle};

	return write_to(to, RDMA_USER_CM_CMD_DESTROY_ID, &cmd, sizeof(cmd), sizeof(*reported));
}

static void a_write_that_is_no_command(void **state)
{
	struct rdma_ucm_cmd_hdr hdr = {RDMA_USER_CM_CMD_CREATE_ID, 0, 0};

	assert_int_equal(urxe_ucma_write(file, fd, &hdr, 0), -EINVAL);
	assert_int_equal(urxe_ucma_write(file, fd, &hdr, sizeof(hdr) - 1), -EINVAL);
	assert_int_equal(urxe_ucma_write(file, fd, (void *)BAD, sizeof(hdr)), -EFAULT);
	hdr.in = 1; /* more than there is */
	assert_int_equal(urxe_ucma_write(file, fd, &hdr, sizeof(hdr)), -EINVAL);
	hdr.in = 0;
	hdr.cmd = RDMA_USER_CM_CMD_JOIN_MCAST + 1; /* of kernels to come */
	assert_int_equal(urxe_ucma_write(file, fd, &hdr, sizeof(hdr)), -EINVAL);
	hdr.cmd = UINT32_MAX;
	assert_int_equal(urxe_ucma_write(file, fd, &hdr, sizeof(hdr)), -EINVAL);
	hdr.cmd = RDMA_USER_CM_CMD_GET_OPTION;
	assert_int_equal(urxe_ucma_write(file, fd, &hdr, sizeof(hdr)), -ENOSYS);
}

/* A command with too little room for its answer, and one whose id there is not. */
static void no_room_and_no_such_id(void **state)
{
	static const struct {
		uint32_t cmd;
		uint16_t in;
		uint16_t id_at; /* offset of the id */
		uint16_t out;	/* the least room that will do; 0: no answer */
	} commands[] = {
#define ROW(cmd, type, out)                                      \
	{RDMA_USER_CM_CMD_##cmd, sizeof(struct rdma_ucm_##type), \
	 offsetof(struct rdma_ucm_##type, id), out}
		ROW(DESTROY_ID, destroy_id, sizeof(struct rdma_ucm_destroy_id_resp)),
		ROW(RESOLVE_ROUTE, resolve_route, 0),
		ROW(QUERY_ROUTE, query, offsetof(struct rdma_ucm_query_route_resp, ibdev_index)),
		ROW(QUERY, query, 0),
		ROW(LISTEN, listen, 0),
		ROW(ACCEPT, accept, 0),
		ROW(REJECT, reject, 0),
		ROW(DISCONNECT, disconnect, 0),
		ROW(INIT_QP_ATTR, init_qp_attr, sizeof(struct ib_uverbs_qp_attr)),
		ROW(SET_OPTION, set_option, 0),
		ROW(NOTIFY, notify, 0),
		ROW(LEAVE_MCAST, destroy_id, sizeof(struct rdma_ucm_destroy_id_resp)),
#undef ROW
	};
	struct urxe_ucma *other;
	uint32_t handle, id;

	assert_int_equal(urxe_ucma_open(&other), 0);
	assert_true(create(other, RDMA_PS_TCP, &handle) > 0);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		uint8_t body[1024] = {0};

		id = NO_SUCH_ID;
		memcpy(body + commands[i].id_at, &id, sizeof(id));
		if (commands[i].out)
			assert_int_equal(write_to(file, commands[i].cmd, body, commands[i].in,
						  commands[i].out - 1),
					 -ENOSPC);
		assert_int_equal(write_to(file, commands[i].cmd, body, commands[i].in, UINT16_MAX),
				 -ENOENT);
		if (commands[i].cmd == RDMA_USER_CM_CMD_LEAVE_MCAST)
			continue;
		memcpy(body + commands[i].id_at, &handle, sizeof(handle));
		assert_int_equal(write_to(file, commands[i].cmd, body, commands[i].in, UINT16_MAX),
				 -EINVAL);
	}
	fd = urxe_ucma_fd(other);
	urxe_ucma_close(other);
	close(fd);
	fd = urxe_ucma_fd(file);
}

static void ids_take_the_lowest_free_handle(void **state)
{
	uint32_t first, second, third, reported;

	assert_true(create(file, RDMA_PS_TCP, &first) > 0);
	assert_true(create(file, RDMA_PS_UDP, &second) > 0);
	assert_int_equal(second, first + 1);
	assert_true(destroy(file, first, &reported) > 0);
	assert_int_equal(reported, 0);
	assert_int_equal(destroy(file, first, &reported), -ENOENT);
	assert_true(create(file, RDMA_PS_IB, &third) > 0);
	assert_int_equal(third, first);
	assert_true(destroy(file, second, &reported) > 0);
	assert_true(destroy(file, third, &reported) > 0);
}

static void ids_that_cannot_be_made(void **state)
{
	struct rdma_ucm_create_id cmd = {.uid = 1, .response = BAD, .ps = RDMA_PS_TCP};
	uint32_t before, after, reported;

	assert_true(create(file, RDMA_PS_TCP, &before) > 0);
	assert_true(destroy(file, before, &reported) > 0);
	assert_int_equal(create(file, 0x1234, &after), -EINVAL);
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), 3), -ENOSPC);
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd), 4), -EFAULT);
	/* And nothing stays behind. */
	assert_true(create(file, RDMA_PS_TCP, &after) > 0);
	assert_int_equal(before, after);
	assert_true(destroy(file, after, &reported) > 0);
}

static void an_id_without_a_device(void **state)
{
	struct rdma_ucm_resolve_route route = {.timeout_ms = 1000};
	struct rdma_ucm_connect connect = {.conn_param.valid = 1};
	struct rdma_ucm_init_qp_attr init = {.qp_state = 1};
	struct rdma_ucm_query_route_resp answer;
	struct rdma_ucm_query query = {.response = (uintptr_t)&answer};
	struct rdma_ucm_reject reject = {0};
	struct rdma_ucm_disconnect disconnect;
	uint32_t id, reported;

	assert_true(create(file, RDMA_PS_TCP, &id) > 0);
	route.id = connect.id = init.id = query.id = reject.id = disconnect.id = id;
#define EXPECT(cmd, body, result) \
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_##cmd, &body, sizeof(body), 1024), result)
	EXPECT(RESOLVE_ROUTE, route, -EINVAL);
	EXPECT(CONNECT, connect, -EINVAL);
	EXPECT(INIT_QP_ATTR, init, -EINVAL);
	EXPECT(DISCONNECT, disconnect, -EINVAL);
	EXPECT(REJECT, reject, -EINVAL);
	reject.id = NO_SUCH_ID;
	reject.reason = 1; /* not one that a program may give */
	EXPECT(REJECT, reject, -EINVAL);
	init.id = NO_SUCH_ID;
	init.qp_state = 7;
	EXPECT(INIT_QP_ATTR, init, -EINVAL);

	memset(&answer, 0xff, sizeof(answer));
	EXPECT(QUERY_ROUTE, query, (ssize_t)(sizeof(struct rdma_ucm_cmd_hdr) + sizeof(query)));
	assert_int_equal(answer.node_guid, 0);
	assert_int_equal(answer.port_num, 0);
	query.option = 99;
	EXPECT(QUERY, query, -ENOSYS);
	query.response = BAD;
	EXPECT(QUERY_ROUTE, query, -EFAULT);
#undef EXPECT
	assert_true(destroy(file, id, &reported) > 0);
}

static void options(void **state)
{
	static const struct {
		uint32_t level, name, len;
		int result;
	} rows[] = {
		{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1, 0},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4, -EINVAL},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 4, 0},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1, -EINVAL},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 4, 0},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 0, -EINVAL},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1, 0},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 8, -EINVAL},
		{RDMA_OPTION_ID, 99, 1, -ENOSYS},
		{RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 0, -EINVAL},
		{RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 71, -EINVAL},
		{RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 72, -EINVAL}, /* no device */
		{RDMA_OPTION_IB, 0, 72, -ENOSYS},
		{7, 0, 1, -ENOSYS},
		{RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 64 << 20, -EINVAL},
	};
	struct rdma_ucm_set_option cmd = {0};
	uint8_t value[72] = {0};
	uint32_t id, reported;
	ssize_t ret;

	assert_true(create(file, RDMA_PS_TCP, &id) > 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cmd = (struct rdma_ucm_set_option){.optval = (uintptr_t)value,
						   .id = id,
						   .level = rows[i].level,
						   .optname = rows[i].name,
						   .optlen = rows[i].len};
		ret = write_to(file, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd), 0);
		assert_int_equal(ret > 0 ? 0 : ret, rows[i].result);
	}
	cmd.optlen = 1;
	cmd.optval = BAD;
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd), 0),
			 -EFAULT);
	assert_true(destroy(file, id, &reported) > 0);
	/* A UD id has no acknowledgements to wait for. */
	assert_true(create(file, RDMA_PS_UDP, &id) > 0);
	cmd = (struct rdma_ucm_set_option){.optval = (uintptr_t)value,
					   .id = id,
					   .optname = RDMA_OPTION_ID_ACK_TIMEOUT,
					   .optlen = 1};
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd), 0),
			 -EINVAL);
	assert_true(destroy(file, id, &reported) > 0);
}

static void addresses_that_are_none(void **state)
{
	struct rdma_ucm_resolve_addr resolve = {.dst_size = sizeof(struct sockaddr_in)};
	struct sockaddr_in any = {.sin_family = AF_INET};
	struct rdma_ucm_bind bind = {0};
	struct rdma_ucm_bind_ip ip = {0};
	uint32_t id, reported;

	assert_true(create(file, RDMA_PS_TCP, &id) > 0);
	bind.id = ip.id = resolve.id = id;
#define EXPECT(cmd, body, result) \
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_##cmd, &body, sizeof(body), 0), result)
	EXPECT(BIND_IP, ip, -EINVAL); /* family 0 */
	ip.addr.sin6_family = AF_IB;  /* no room for one */
	EXPECT(BIND_IP, ip, -EINVAL);
	memcpy(&bind.addr, &any, sizeof(any));
	EXPECT(BIND, bind, -EINVAL); /* no size */
	bind.addr_size = sizeof(any) - 1;
	EXPECT(BIND, bind, -EINVAL);
	bind.addr_size = sizeof(any);
	bind.reserved = 1;
	EXPECT(BIND, bind, -EINVAL);
	EXPECT(RESOLVE_ADDR, resolve, -EINVAL); /* size, but no family */
#undef EXPECT
	assert_true(destroy(file, id, &reported) > 0);
}

static void no_event_waits(void **state)
{
	struct rdma_ucm_event_resp event;
	struct rdma_ucm_get_event cmd = {.response = (uintptr_t)&event};
	const size_t without_ece = offsetof(struct rdma_ucm_event_resp, reserved);
	struct pollfd poll_fd = {fd, POLLIN, 0};

	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd),
				  without_ece - 1),
			 -ENOSPC);
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), without_ece),
			 -EAGAIN);
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd),
				  sizeof(event)),
			 -EAGAIN);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
}

static _Thread_local bool to_be_cancelled;

/* Cancelled as libc may do it: the read is done, and its result not yet returned. */
static ssize_t read_and_be_cancelled(int from, void *buf, size_t len)
{
	ssize_t ret = read(from, buf, len);

	if (to_be_cancelled) {
		pthread_cancel(pthread_self());
		pthread_testcancel();
	}
	return ret;
}

static int open_file_to_be_cancelled(void **state)
{
	urxe_libc_init();
	urxe_libc.read = read_and_be_cancelled;
	assert_int_equal(urxe_ucma_open(&file), 0);
	fd = urxe_ucma_fd(file);
	return 0;
}

#ifdef __SANITIZE_ADDRESS__
void __asan_handle_no_return(void);
#endif

/* The sanitizer does not see that what was on the stack is gone. */
static void unwound(void *unused)
{
#ifdef __SANITIZE_ADDRESS__
	__asan_handle_no_return();
#endif
}

static ssize_t get_event(uint32_t type)
{
	struct rdma_ucm_event_resp event = {0};
	struct rdma_ucm_get_event cmd = {.response = (uintptr_t)&event};
	ssize_t ret = write_to(file, RDMA_USER_CM_CMD_GET_EVENT, &cmd, sizeof(cmd), sizeof(event));

	assert_int_equal(event.event, type);
	return ret;
}

static void *wait_for_event(void *unused)
{
	to_be_cancelled = true;
	pthread_cleanup_push(unwound, NULL);
	get_event(0);
	pthread_cleanup_pop(false);
	return NULL;
}

static void report(enum urxe_id_event_type type)
{
	urxe_engine_lock();
	urxe_id_report(cds_list_first_entry(&file->ids, struct urxe_id, node), type, 0);
	urxe_engine_unlock();
}

static void a_waiter_that_is_cancelled_takes_no_news_along(void **state)
{
	struct pollfd poll_fd = {fd, POLLIN, 0};
	uint32_t id, reported;
	pthread_t waiter;
	void *result;

	assert_true(create(file, RDMA_PS_TCP, &id) > 0);
	assert_int_equal(pthread_create(&waiter, NULL, wait_for_event, NULL), 0);
	while (!atomic_load(&urxe_hca.armed))
		sched_yield();
	report(URXE_EVENT_ADDR_ERROR);
	pthread_join(waiter, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(atomic_load(&urxe_hca.armed), 0);
	assert_int_equal(poll(&poll_fd, 1, 0), 1);
	assert_true(get_event(URXE_EVENT_ADDR_ERROR) > 0);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
	report(URXE_EVENT_ROUTE_ERROR);
	assert_int_equal(poll(&poll_fd, 1, 0), 1);
	assert_true(get_event(URXE_EVENT_ROUTE_ERROR) > 0);
	assert_true(destroy(file, id, &reported) > 0);
	assert_int_equal(reported, 2);
}

static void *wait_for_report(void *unused)
{
	return get_event(URXE_EVENT_ADDR_ERROR) > 0 ? file : NULL;
}

/* rping closes its channel while its thread takes the last event of it (ucma_get_event() holds the
 * file). */
static void a_waiter_outlives_the_descriptor(void **state)
{
	uint32_t id, reported;
	pthread_t waiter;
	void *result;

	assert_true(create(file, RDMA_PS_TCP, &id) > 0);
	close(fd);
	assert_int_equal(pthread_create(&waiter, NULL, wait_for_report, NULL), 0);
	while (!atomic_load(&urxe_hca.armed))
		sched_yield();
	report(URXE_EVENT_ADDR_ERROR);
	pthread_join(waiter, &result);
	assert_ptr_equal(result, file);
	assert_true(destroy(file, id, &reported) > 0);
	urxe_ucma_close(file);
}

bool __wrap_urxe_engine_waits(void);
bool __real_urxe_engine_waits(void);
void __wrap_urxe_engine_progress(bool often);
void __real_urxe_engine_progress(bool often);

static _Thread_local bool in_turn; /* the next one, and the waiter is cancelled in it */
static bool turn_finds_an_event;
static bool turn_owns_the_lock; /* which is for threads on the way of data */

bool __wrap_urxe_engine_waits(void)
{
	return in_turn || __real_urxe_engine_waits();
}

void __wrap_urxe_engine_progress(bool often)
{
	turn_owns_the_lock = often;
	if (in_turn) {
		in_turn = false;
		pthread_cancel(pthread_self());
		if (turn_finds_an_event)
			report(URXE_EVENT_ADDR_ERROR);
	}
	__real_urxe_engine_progress(often);
}

static void *wait_in_turn(void *unused)
{
	in_turn = true;
	pthread_cleanup_push(unwound, NULL);
	get_event(turn_finds_an_event ? URXE_EVENT_ADDR_ERROR : 0);
	pthread_cleanup_pop(false);
	return file;
}

/* Before it sleeps, a waiter takes a turn of the engine. */
static void a_waiter_that_is_cancelled_in_a_turn_leaves_all_in_order(void **state)
{
	struct pollfd poll_fd = {fd, POLLIN, 0};
	uint32_t id, reported;
	pthread_t waiter;
	void *result;

	if (!file->manager)
		skip();
	assert_true(create(file, RDMA_PS_TCP, &id) > 0);
	for (unsigned round = 0; round < 2; round++) {
		turn_finds_an_event = round;
		assert_int_equal(pthread_create(&waiter, NULL, wait_in_turn, NULL), 0);
		pthread_join(waiter, &result);
		/* What the turn finds it still takes; else it goes when it would sleep. */
		assert_ptr_equal(result, round ? file : PTHREAD_CANCELED);
		assert_false(turn_owns_the_lock);
		assert_int_equal(atomic_load(&urxe_hca.armed), 0);
		assert_int_equal(poll(&poll_fd, 1, 0), 0);
		report(URXE_EVENT_ROUTE_ERROR);
		assert_int_equal(poll(&poll_fd, 1, 0), 1);
		assert_true(get_event(URXE_EVENT_ROUTE_ERROR) > 0);
	}
	assert_true(destroy(file, id, &reported) > 0);
	assert_int_equal(reported, 3);
}

static void migrating_from_what_is_no_file(void **state)
{
	struct rdma_ucm_migrate_id cmd = {.response = BAD, .fd = 0};

	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd), 4),
			 -EINVAL);
	cmd.fd = 99999;
	assert_int_equal(write_to(file, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd), 4),
			 -ENOENT);
}

static void a_forked_child_cannot_use_the_file(void **state)
{
	uint32_t id, reported;
	int status;
	pid_t pid;

	assert_true(create(file, RDMA_PS_TCP, &id) > 0);
	pid = fork();
	if (!pid) {
		urxe_ucma_forked();
		if (create(file, RDMA_PS_TCP, &id) != -ENODEV)
			_exit(1);
		if (destroy(file, id, &reported) != -ENODEV)
			_exit(2);
		urxe_ucma_close(file);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(destroy(file, id, &reported) > 0);
}

/* ---- a kernel with an rdma_cm, which resolves an address before the command returns ---- */

#define TWIN 7

static struct kernel {
	bool there;
	uint32_t handle; /* of the id */
	pthread_t thread;
	_Atomic pid_t tid;
	_Atomic bool fetched, queried, done;
} kernel;

int __wrap_urxe_kernel_open(struct urxe_ucma *to);
int __real_urxe_kernel_open(struct urxe_ucma *to);
int __wrap_urxe_kernel_command(struct urxe_ucma *to, uint32_t cmd, const void *body, uint16_t len,
			       uint16_t out);
int __real_urxe_kernel_command(struct urxe_ucma *to, uint32_t cmd, const void *body, uint16_t len,
			       uint16_t out);

int __wrap_urxe_kernel_open(struct urxe_ucma *to)
{
	if (!kernel.there)
		return __real_urxe_kernel_open(to);
	if (to->kernel_fd < 0) {
		to->kernel_fd = open("/dev/null", O_RDWR);
		CDS_INIT_LIST_HEAD(&to->watched);
	}
	return 0;
}

/* The program's thread for events asks about each one at once. */
static void *asks_at_once(void *unused)
{
	struct rdma_ucm_query_route_resp route;
	struct rdma_ucm_query query = {.response = (uintptr_t)&route, .id = kernel.handle};
	struct rdma_ucm_event_resp event = {0};
	struct rdma_ucm_get_event get = {.response = (uintptr_t)&event};

	atomic_store(&kernel.tid, gettid());
	write_to(file, RDMA_USER_CM_CMD_GET_EVENT, &get, sizeof(get), sizeof(event));
	if (event.id == kernel.handle && event.event == URXE_EVENT_ADDR_RESOLVED)
		write_to(file, RDMA_USER_CM_CMD_QUERY_ROUTE, &query, sizeof(query), sizeof(route));
	atomic_store(&kernel.done, true);
	return NULL;
}

static bool sleeps(pid_t tid)
{
	char path[64], text[512] = "", *end;
	int stat;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	stat = open(path, O_RDONLY);
	assert_true(stat >= 0 && read(stat, text, sizeof(text) - 1) > 0);
	close(stat);
	end = strrchr(text, ')');
	return end && end[2] == 'S';
}

int __wrap_urxe_kernel_command(struct urxe_ucma *to, uint32_t cmd, const void *body, uint16_t len,
			       uint16_t out)
{
	const struct rdma_ucm_create_id *create = body;
	const struct rdma_ucm_get_event *get = body;
	const struct rdma_ucm_event_resp resolved = {
		.uid = 1, .id = TWIN, .event = URXE_EVENT_ADDR_RESOLVED};

	if (!kernel.there)
		return __real_urxe_kernel_command(to, cmd, body, len, out);
	switch (cmd) {
	case RDMA_USER_CM_CMD_CREATE_ID: *(uint32_t *)(uintptr_t)create->response = TWIN; break;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		assert_int_equal(pthread_create(&kernel.thread, NULL, asks_at_once, NULL), 0);
		while (!atomic_load(&kernel.done) &&
		       !(atomic_load(&kernel.fetched) && sleeps(atomic_load(&kernel.tid))))
			sched_yield();
		break;
	case RDMA_USER_CM_CMD_GET_EVENT:
		memcpy((void *)(uintptr_t)get->response, &resolved, sizeof(resolved));
		atomic_store(&kernel.fetched, true);
		break;
	case RDMA_USER_CM_CMD_QUERY_ROUTE: atomic_store(&kernel.queried, true); break;
	}
	return 0;
}

/* What the kernel tells of an id comes when the id is known to be the kernel's. Else the program is
 * told that the id has no device. */
static void an_event_of_the_kernels_waits_for_the_decision(void **state)
{
	struct rdma_ucm_resolve_ip cmd = {
		.dst_addr = {.sin6_family = AF_INET6, .sin6_port = htobe16(7)}, .timeout_ms = 1000};
	bool manager = file->manager;
	uint32_t reported;

	kernel.there = true;
	assert_true(create(file, RDMA_PS_TCP, &kernel.handle) > 0);
	inet_pton(AF_INET6, "fd77::1", &cmd.dst_addr.sin6_addr);
	cmd.id = kernel.handle;
	file->manager = false; /* as where the kernel has the port */
	assert_true(write_to(file, RDMA_USER_CM_CMD_RESOLVE_IP, &cmd, sizeof(cmd), 0) > 0);
	file->manager = manager;
	pthread_join(kernel.thread, NULL);
	assert_true(atomic_load(&kernel.fetched));
	assert_true(atomic_load(&kernel.queried));
	assert_true(destroy(file, kernel.handle, &reported) > 0);
}

static int without_kernel(void **state)
{
	close_file(state);
	kernel.there = false;
	return 0;
}

static void memory_of_the_program(void **state)
{
	long page = sysconf(_SC_PAGESIZE);
	uint8_t *mem =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t here[16] = "on the stack", out[16];

	assert_ptr_not_equal(mem, MAP_FAILED);
	munmap(mem + page, page);
	memcpy(mem + page - 16, "at the very end", 16);
	assert_int_equal(urxe_user_read(out, (uintptr_t)mem + page - 16, 16), 0);
	assert_string_equal((char *)out, "at the very end");
	assert_int_equal(urxe_user_read(out, (uintptr_t)mem + page - 15, 16), -EFAULT);
	assert_int_equal(urxe_user_write((uintptr_t)mem + page - 15, here, 16), -EFAULT);
	mprotect(mem, page, PROT_READ);
	assert_int_equal(urxe_user_write((uintptr_t)mem, here, 16), -EFAULT);
	assert_int_equal(urxe_user_read(out, (uintptr_t)here, 16), 0);
	assert_string_equal((char *)out, "on the stack");
	assert_int_equal(urxe_user_read(out, UINT64_MAX - 7, 16), -EFAULT);
	assert_int_equal(urxe_user_read(out, (uintptr_t)here, 0), 0);
	munmap(mem, page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_write_that_is_no_command, open_file, close_file),
		cmocka_unit_test_setup_teardown(no_room_and_no_such_id, open_file, close_file),
		cmocka_unit_test_setup_teardown(ids_take_the_lowest_free_handle, open_file,
						close_file),
		cmocka_unit_test_setup_teardown(ids_that_cannot_be_made, open_file, close_file),
		cmocka_unit_test_setup_teardown(an_id_without_a_device, open_file, close_file),
		cmocka_unit_test_setup_teardown(options, open_file, close_file),
		cmocka_unit_test_setup_teardown(addresses_that_are_none, open_file, close_file),
		cmocka_unit_test_setup_teardown(no_event_waits, open_file, close_file),
		cmocka_unit_test_setup_teardown(a_waiter_that_is_cancelled_takes_no_news_along,
						open_file_to_be_cancelled, close_file),
		cmocka_unit_test_setup_teardown(
			a_waiter_that_is_cancelled_in_a_turn_leaves_all_in_order, open_file,
			close_file),
		cmocka_unit_test_setup(a_waiter_outlives_the_descriptor, open_file),
		cmocka_unit_test_setup_teardown(migrating_from_what_is_no_file, open_file,
						close_file),
		cmocka_unit_test_setup_teardown(a_forked_child_cannot_use_the_file, open_file,
						close_file),
		cmocka_unit_test_setup_teardown(an_event_of_the_kernels_waits_for_the_decision,
						open_file, without_kernel),
		cmocka_unit_test(memory_of_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
