/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Ids that the kernel's rdma_cm has, beside ours or alone (kernel.h). A decision takes several
 * steps, some of them in the kernel: the mutex deciding makes one of them. What is known of an id
 * is read and written under the engine lock in between, and looked up anew each time, because it
 * may have been destroyed meanwhile.
 *
 * The kernel's commands may sleep for a moment. No thread is cancelled while it holds the mutex.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cm/kernel.h"
#include "hca/adapter.h"
#include "host/mutex.h"
#include "host/user_memory.h"

static URXE_MUTEX(deciding);
static int cancel; /* of the thread that decides */

static void begin(void)
{
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	pthread_mutex_lock(&deciding);
	cancel = old;
}

static void end(void)
{
	int old = cancel;

	pthread_mutex_unlock(&deciding);
	pthread_setcancelstate(old, NULL);
}

void urxe_kernel_settle(void)
{
	begin();
	end();
}

/* The command as the program wrote it, about that id of the kernel's. */
static int forward(const struct urxe_command *c, uint32_t kernel, uint64_t response)
{
	const struct urxe_command_kind *kind = c->kind;
	uint8_t body[URXE_COMMAND_MAX];
	uint16_t size = kind->oldest && c->in < kind->size ? c->in : kind->size;

	if (!kind->about_id || size < kind->id_at + sizeof(kernel))
		return -EINVAL;
	if (urxe_command_take(c, body, size))
		return -EFAULT;
	memcpy(body + kind->id_at, &kernel, sizeof(kernel));
	if (response) /* of those that have one, it stands first */
		memcpy(body, &response, sizeof(response));
	return urxe_kernel_command(c->file, c->cmd, body, size, c->out);
}

/* The id of that handle on the file, or NULL. Under the engine lock. */
static struct urxe_id *id_on(const struct urxe_ucma *file, uint32_t handle)
{
	struct urxe_id *id = urxe_id_of_handle(handle);

	return id && id->file == file ? id : NULL;
}

/* What an id is to the kernel: the handle of its twin, and whether it is the kernel's alone. */
static bool twin_of(const struct urxe_ucma *file, uint32_t handle, uint32_t *kernel, bool *foreign)
{
	struct urxe_id *id;
	bool has;

	urxe_engine_lock();
	id = id_on(file, handle);
	has = id && id->twin.kind;
	*kernel = has ? id->twin.kernel : UINT32_MAX;
	*foreign = id && id->state == URXE_ID_FOREIGN;
	urxe_engine_unlock();
	return has;
}

int urxe_kernel_pass(const struct urxe_command *c)
{
	const struct urxe_command_kind *kind = c->kind;
	uint32_t handle, kernel;
	bool foreign;

	if (c->file->kernel_fd < 0 || !kind->about_id || kind->id_at + sizeof(handle) > c->have)
		return URXE_OURS;
	memcpy(&handle, c->bytes + kind->id_at, sizeof(handle));
	twin_of(c->file, handle, &kernel, &foreign);
	if (!foreign)
		return URXE_OURS;
	if (c->cmd == RDMA_USER_CM_CMD_JOIN_IP_MCAST || c->cmd == RDMA_USER_CM_CMD_JOIN_MCAST)
		return urxe_kernel_join(c, handle);
	return forward(c, kernel, 0);
}

int urxe_kernel_also(const struct urxe_command *c, uint32_t handle)
{
	uint32_t kernel;
	bool foreign;

	if (c->file->kernel_fd < 0 || !twin_of(c->file, handle, &kernel, &foreign))
		return 0;
	return forward(c, kernel, 0);
}

/* DESTROY_ID or LEAVE_MCAST; *reported: the number of events that were reported about it. */
static int end_twin(struct urxe_ucma *file, uint32_t command, uint32_t kernel, uint32_t *reported)
{
	struct rdma_ucm_destroy_id_resp resp = {0};
	struct rdma_ucm_destroy_id cmd = {.response = (uintptr_t)&resp, .id = kernel};
	int ret = urxe_kernel_command(file, command, &cmd, sizeof(cmd), sizeof(resp));

	urxe_kernel_events_gone(file);
	*reported = resp.events_reported;
	return ret;
}

uint32_t urxe_kernel_destroy(struct urxe_ucma *file, uint32_t kernel)
{
	uint32_t reported;

	end_twin(file, RDMA_USER_CM_CMD_DESTROY_ID, kernel, &reported);
	return reported;
}

/* ---- making twins ---- */

static int set_option(struct urxe_ucma *file, uint32_t kernel, uint32_t name, const void *value,
		      uint32_t len)
{
	struct rdma_ucm_set_option cmd = {.optval = (uintptr_t)value,
					  .id = kernel,
					  .level = RDMA_OPTION_ID,
					  .optname = name,
					  .optlen = len};

	return urxe_kernel_command(file, RDMA_USER_CM_CMD_SET_OPTION, &cmd, sizeof(cmd), 0);
}

/* What the program has set on the id so far. */
static int set_options(struct urxe_ucma *file, uint32_t kernel, const struct urxe_id_options *opt)
{
	int on = opt->reuse, only = opt->afonly, ret = 0;

	if (on)
		ret = set_option(file, kernel, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (!ret && opt->afonly_set)
		ret = set_option(file, kernel, RDMA_OPTION_ID_AFONLY, &only, sizeof(only));
	if (!ret && opt->tos_set)
		ret = set_option(file, kernel, RDMA_OPTION_ID_TOS, &opt->tos, 1);
	if (!ret && opt->timeout_set)
		ret = set_option(file, kernel, RDMA_OPTION_ID_ACK_TIMEOUT, &opt->timeout, 1);
	return ret;
}

static int bind_twin(struct urxe_ucma *file, uint32_t kernel, const union urxe_sockaddr *addr)
{
	struct rdma_ucm_bind cmd = {.id = kernel, .addr_size = urxe_sockaddr_size(addr->family)};

	memcpy(&cmd.addr, addr, cmd.addr_size);
	return urxe_kernel_command(file, RDMA_USER_CM_CMD_BIND, &cmd, sizeof(cmd), 0);
}

/* A copy of what a twin is to be made with. */
static int look_at(struct urxe_ucma *file, uint32_t handle, struct urxe_id *copy)
{
	struct urxe_id *id;

	urxe_engine_lock();
	id = id_on(file, handle);
	if (id)
		*copy = *id;
	urxe_engine_unlock();
	return id ? 0 : -ENOENT;
}

/* Makes a twin of an id that has none: it has the id's options, and its address if it is bound. */
static int make_twin(struct urxe_ucma *file, uint32_t handle, uint32_t *kernel)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id cmd;
	struct urxe_id copy, *id;
	int ret = look_at(file, handle, &copy);

	if (ret)
		return ret;
	cmd = (struct rdma_ucm_create_id){.uid = copy.uid,
					  .response = (uintptr_t)&resp,
					  .ps = copy.ps,
					  .qp_type = copy.qp_type};
	ret = urxe_kernel_command(file, RDMA_USER_CM_CMD_CREATE_ID, &cmd, sizeof(cmd),
				  sizeof(resp));
	if (ret)
		return ret;
	*kernel = resp.id;
	ret = set_options(file, resp.id, &copy.options);
	if (!ret && copy.state != URXE_ID_IDLE)
		ret = bind_twin(file, resp.id, &copy.src);
	if (!ret) {
		urxe_engine_lock();
		id = id_on(file, handle);
		if (id)
			urxe_twin_set(&id->twin, URXE_HANDLE_ID, resp.id, handle);
		urxe_engine_unlock();
		ret = id ? 0 : -ENOENT;
	}
	if (ret)
		urxe_kernel_destroy(file, resp.id);
	return ret;
}

static void drop_twin(struct urxe_ucma *file, uint32_t handle)
{
	struct urxe_id *id;
	uint32_t kernel = 0;
	bool has;

	urxe_engine_lock();
	id = id_on(file, handle);
	has = id && id->twin.kind;
	if (has) {
		kernel = id->twin.kernel;
		urxe_twin_drop(&id->twin);
	}
	urxe_engine_unlock();
	if (has)
		urxe_kernel_destroy(file, kernel);
}

/* ---- deciding ---- */

static void make_foreign(struct urxe_ucma *file, uint32_t handle)
{
	struct urxe_id *id;

	urxe_engine_lock();
	id = id_on(file, handle);
	if (id) {
		urxe_id_unbind(id);
		id->state = URXE_ID_FOREIGN;
	}
	urxe_engine_unlock();
}

int urxe_kernel_take(const struct urxe_command *c, uint32_t handle)
{
	bool foreign, had;
	uint32_t kernel;
	int ret;

	begin();
	if (urxe_kernel_open(c->file)) {
		end();
		return URXE_OURS;
	}
	had = twin_of(c->file, handle, &kernel, &foreign);
	ret = had ? 0 : make_twin(c->file, handle, &kernel);
	if (!ret)
		ret = forward(c, kernel, 0);
	if (!ret)
		make_foreign(c->file, handle);
	else if (!had)
		drop_twin(c->file, handle);
	end();
	return ret;
}

int urxe_kernel_bind_any(struct urxe_ucma *file, uint32_t handle)
{
	uint32_t kernel;
	int ret;

	begin();
	ret = urxe_kernel_open(file) ?: make_twin(file, handle, &kernel);
	end();
	return ret == -EADDRINUSE ? ret : 0;
}

void urxe_kernel_leave(struct urxe_ucma *file, uint32_t handle)
{
	if (file->kernel_fd < 0)
		return;
	begin();
	drop_twin(file, handle);
	end();
}

void urxe_kernel_unlisten(struct urxe_ucma *file, uint32_t handle)
{
	uint32_t kernel;
	bool foreign;

	if (file->kernel_fd < 0)
		return;
	begin();
	if (twin_of(file, handle, &kernel, &foreign)) {
		drop_twin(file, handle);
		make_twin(file, handle, &kernel);
	}
	end();
}

int urxe_kernel_migrate(struct urxe_ucma *from, struct urxe_ucma *to, uint32_t kernel,
			uint32_t *reported)
{
	struct rdma_ucm_migrate_resp resp = {0};
	struct rdma_ucm_migrate_id cmd = {
		.response = (uintptr_t)&resp, .id = kernel, .fd = from->kernel_fd};
	int ret;

	begin();
	ret = urxe_kernel_open(to)
		      ?: urxe_kernel_command(to, RDMA_USER_CM_CMD_MIGRATE_ID, &cmd, sizeof(cmd),
					     sizeof(resp));
	end();
	if (ret)
		return ret;
	urxe_kernel_events_gone(from);
	*reported += resp.events_reported;
	return 0;
}

/* ---- multicast ---- */

/* Our side of a membership in the kernel, which knows all but its handle. */
static int add_mcast(struct urxe_ucma *file, uint32_t handle, uint32_t kernel, uint32_t *ours)
{
	struct urxe_id_mcast *mcast = calloc(1, sizeof(*mcast));
	struct urxe_id *id;
	int ret = -ENOENT;

	if (!mcast)
		return -ENOMEM;
	urxe_engine_lock();
	id = id_on(file, handle);
	if (id)
		ret = urxe_handle_new(URXE_HANDLE_MCAST, mcast, &mcast->handle);
	if (!ret) {
		mcast->id = id;
		cds_list_add(&mcast->node, &id->mcasts);
		urxe_twin_set(&mcast->twin, URXE_HANDLE_MCAST, kernel, mcast->handle);
		*ours = mcast->handle;
	}
	urxe_engine_unlock();
	if (ret)
		free(mcast);
	return ret;
}

int urxe_kernel_join(const struct urxe_command *c, uint32_t handle)
{
	struct rdma_ucm_create_id_resp resp;
	uint32_t kernel, ours = UINT32_MAX, reported;
	uint64_t response;
	bool foreign;
	int ret;

	if (!twin_of(c->file, handle, &kernel, &foreign))
		return -ENOENT;
	if (urxe_command_take(c, &response, sizeof(response)))
		return -EFAULT;
	ret = forward(c, kernel, (uintptr_t)&resp);
	if (ret)
		return ret;
	ret = add_mcast(c->file, handle, resp.id, &ours)
		      ?: urxe_user_write(response, &ours, sizeof(ours));
	if (!ret)
		return 0;
	if (ours == UINT32_MAX)
		end_twin(c->file, RDMA_USER_CM_CMD_LEAVE_MCAST, resp.id, &reported);
	else
		urxe_kernel_leave_mcast(c, ours, &reported);
	return ret;
}

int urxe_kernel_leave_mcast(const struct urxe_command *c, uint32_t handle, uint32_t *reported)
{
	struct urxe_id_mcast *mcast;
	uint32_t kernel = 0;
	bool theirs;

	if (c->file->kernel_fd < 0)
		return URXE_OURS;
	urxe_engine_lock();
	mcast = urxe_handle_get(URXE_HANDLE_MCAST, handle);
	theirs = mcast && mcast->id->file == c->file && mcast->twin.kind;
	if (theirs) {
		kernel = mcast->twin.kernel;
		urxe_id_leave(mcast);
	}
	urxe_engine_unlock();
	return theirs ? end_twin(c->file, RDMA_USER_CM_CMD_LEAVE_MCAST, kernel, reported)
		      : URXE_OURS;
}
