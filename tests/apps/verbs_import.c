// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Device memory (ibv_alloc_dm(3)), and contexts, protection domains, regions and device memory that
 * are imported (ibv_import_device(3)), in one process and in another.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "verbs_test.h"

#define SIZE 8192
#define ACCESS                                                                      \
	(IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_dm *new_dm(uint64_t length)
{
	struct ibv_alloc_dm_attr attr = {.length = length};
	struct ibv_dm *dm = ibv_alloc_dm(ctx, &attr);

	NEED(dm);
	return dm;
}

/* ---- device memory ---- */

static void dm_limits(void)
{
	struct ibv_device_attr_ex device;
	struct ibv_alloc_dm_attr attr = {0};
	struct ibv_dm *dm;

	NEED(!ibv_query_device_ex(ctx, NULL, &device));
	NEED(device.max_dm_size);
	EXPECT_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.length = device.max_dm_size + 1;
	EXPECT_NULL(ibv_alloc_dm(ctx, &attr), ENOMEM);
	attr.length = 64;
	attr.comp_mask = 1;
	EXPECT_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.comp_mask = 0;
	attr.log_align_req = 64;
	EXPECT_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.log_align_req = 0;
	attr.length = device.max_dm_size;
	dm = ibv_alloc_dm(ctx, &attr);
	NEED(dm);
	attr.length = 1;
	EXPECT_NULL(ibv_alloc_dm(ctx, &attr), ENOMEM);
	EXPECT(ibv_free_dm(dm), 0);
	/* What was given back is whole again. */
	dm = new_dm(device.max_dm_size);
	EXPECT(ibv_free_dm(dm), 0);
}

static void dm_copies(void)
{
	struct ibv_dm *dm = new_dm(100);
	uint8_t in[100], out[100];

	memset(in, 0x5a, sizeof(in));
	EXPECT(ibv_memcpy_from_dm(out, dm, 0, 100), 0);
	for (int i = 0; i < 100; i++)
		EXPECT(out[i], 0);
	EXPECT(ibv_memcpy_to_dm(dm, 4, in, 96), 0);
	EXPECT(ibv_memcpy_from_dm(out, dm, 0, 100), 0);
	EXPECT(out[3], 0);
	EXPECT_TRUE(!memcmp(out + 4, in, 96));
	EXPECT(ibv_memcpy_to_dm(dm, 2, in, 4), EINVAL);
	EXPECT(ibv_memcpy_to_dm(dm, 0, in, 3), EINVAL);
	EXPECT(ibv_memcpy_to_dm(dm, 104, in, 0), EINVAL);
	EXPECT(ibv_memcpy_from_dm(out, dm, 100, 4), EINVAL);
	EXPECT(ibv_memcpy_from_dm(out, dm, UINT64_MAX - 3, 8), EINVAL);
	EXPECT(ibv_free_dm(dm), 0);
}

static void dm_regions(void)
{
	struct ibv_dm *dm = new_dm(100);
	struct ibv_mr *mr;

	EXPECT_NULL(ibv_reg_dm_mr(pd, dm, 0, 104, ACCESS), EINVAL);
	EXPECT_NULL(ibv_reg_dm_mr(pd, dm, 104, 0, ACCESS), EINVAL);
	EXPECT_NULL(ibv_reg_dm_mr(pd, dm, UINT64_MAX, 2, ACCESS), EINVAL);
	EXPECT_NULL(ibv_reg_dm_mr(pd, dm, 0, 100, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	EXPECT_NULL(ibv_reg_dm_mr(pd, dm, 0, 100, ACCESS | IBV_ACCESS_ON_DEMAND), EINVAL);
	mr = ibv_reg_dm_mr(pd, dm, 4, 96, ACCESS);
	NEED(mr);
	EXPECT(ibv_free_dm(dm), EBUSY);
	EXPECT(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, &dm, 4, 0),
	       IBV_REREG_MR_ERR_INPUT);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_free_dm(dm), 0);
}

/* b's device memory, from a: written, read, counted; and sent from. */
static void dm_traffic(void)
{
	static uint64_t buf[SIZE / 8];
	struct setup s = {.type = IBV_QPT_RC};
	struct ibv_dm *dm = new_dm(SIZE);
	struct ibv_mr *far = ibv_reg_dm_mr(pd, dm, 0, SIZE, ACCESS);
	struct ibv_mr *near = ibv_reg_mr(pd, buf, SIZE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {.addr = (uintptr_t)buf, .length = SIZE};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};
	struct end a, b;
	uint64_t value;

	NEED(far && near);
	make_pair(&a, &b, &s);
	sge.lkey = near->lkey;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.rkey = far->rkey;
	for (int i = 0; i < SIZE / 8; i++)
		buf[i] = i;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(ibv_memcpy_from_dm(&value, dm, 80, 8), 0);
	EXPECT(value, 10);

	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = 80;
	wr.wr.atomic.rkey = far->rkey;
	wr.wr.atomic.compare_add = 5;
	sge.length = 8;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(buf[0], 10);
	EXPECT(ibv_memcpy_from_dm(&value, dm, 80, 8), 0);
	EXPECT(value, 15);

	/* A local buffer of device memory is named by its offset, too. */
	sge = (struct ibv_sge){.addr = 80, .length = 8, .lkey = far->lkey};
	EXPECT(post_buffer(&b, 7, buf + 100, 8, near->lkey), 0);
	wr.opcode = IBV_WR_SEND;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT_WC(b.rcq, 7, IBV_WC_SUCCESS);
	EXPECT(buf[100], 15);

	wr.opcode = IBV_WR_RDMA_WRITE;
	sge = (struct ibv_sge){.addr = (uintptr_t)buf, .length = 8, .lkey = near->lkey};
	wr.wr.rdma.remote_addr = SIZE - 4;
	wr.wr.rdma.rkey = far->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_REM_ACCESS_ERR);
	while (event_waits())
		next_event();
	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(far), 0);
	EXPECT(ibv_dereg_mr(near), 0);
	EXPECT(ibv_free_dm(dm), 0);
}

/* ---- imports in one process ---- */

static void import_refused(void)
{
	int fd = open("/dev/null", O_RDWR);
	struct ibv_context *other;

	EXPECT_TRUE(!ibv_import_device(-1));
	EXPECT_TRUE(!ibv_import_device(fd));
	EXPECT(close(fd), 0);
	NEED(other = ibv_import_device(dup(ctx->cmd_fd)));
	EXPECT_NULL(ibv_import_pd(other, 0xffffffff), ENOENT);
	EXPECT_NULL(ibv_import_pd(other, pd->handle ^ 0x8000), ENOENT);
	EXPECT_NULL(ibv_import_mr(pd, 0x12345600), ENOENT);
	EXPECT_NULL(ibv_import_dm(other, 4095), ENOENT);
	EXPECT_NULL(ibv_import_dm(other, 0xffffffff), ENOENT);
	EXPECT(ibv_close_device(other), 0);
}

static void import_here(void)
{
	static uint8_t buf[64];
	struct ibv_context *other = ibv_import_device(dup(ctx->cmd_fd));
	struct ibv_dm *dm = new_dm(64), *same_dm;
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, 64, IBV_ACCESS_LOCAL_WRITE), *same_mr;
	struct ibv_pd *same;
	uint32_t value = 0x11223344, handle;

	NEED(other && mr);
	handle = mr->handle;
	EXPECT_TRUE(!strcmp(other->device->name, "urxe0"));
	NEED(same = ibv_import_pd(other, pd->handle));
	NEED(same_mr = ibv_import_mr(same, handle));
	EXPECT(same_mr->lkey, mr->lkey);
	EXPECT(same_mr->rkey, mr->rkey);
	EXPECT_TRUE(!same_mr->addr);
	EXPECT(ibv_dealloc_pd(same), EBUSY);
	ibv_unimport_mr(same_mr);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT_NULL(ibv_import_mr(same, handle), ENOENT);
	ibv_unimport_pd(same);

	/* Nobody frees a domain that others use; who only has a handle does not use it. */
	NEED(mr = ibv_reg_mr(pd, buf, 64, IBV_ACCESS_LOCAL_WRITE));
	NEED(same = ibv_import_pd(other, pd->handle));
	EXPECT(ibv_dealloc_pd(same), EBUSY);
	NEED(same_mr = ibv_import_mr(same, mr->handle));
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dealloc_pd(pd), EBUSY);
	ibv_unimport_mr(same_mr);
	NEED(mr = ibv_reg_mr(same, buf, 64, IBV_ACCESS_LOCAL_WRITE));
	EXPECT(ibv_dealloc_pd(pd), EBUSY);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dealloc_pd(same), 0);
	EXPECT(ibv_dealloc_pd(pd), 0);
	NEED(pd = ibv_alloc_pd(ctx));

	NEED(same_dm = ibv_import_dm(other, dm->handle));
	EXPECT(ibv_memcpy_to_dm(dm, 60, &value, 4), 0);
	value = 0;
	EXPECT(ibv_memcpy_from_dm(&value, same_dm, 60, 4), 0);
	EXPECT(value, 0x11223344);
	NEED(mr = ibv_reg_dm_mr(pd, dm, 0, 64, ACCESS));
	EXPECT(ibv_free_dm(same_dm), EBUSY);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_free_dm(same_dm), 0);
	EXPECT_NULL(ibv_reg_dm_mr(pd, dm, 0, 64, ACCESS), ENOENT);
	EXPECT(ibv_free_dm(dm), 0);
	EXPECT(ibv_close_device(other), 0);
}

/* ---- and in another ---- */

struct handles {
	uint32_t pd, mr, private_mr, dm, rkey;
};

static void send_fd(int socket, int fd, const struct handles *h)
{
	struct iovec iov = {(void *)h, sizeof(*h)};
	char room[CMSG_SPACE(sizeof(fd))] = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room};
	struct cmsghdr *c;

	msg.msg_controllen = sizeof(room);
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	NEED(sendmsg(socket, &msg, 0) == sizeof(*h));
}

static int receive_fd(int socket, struct handles *h)
{
	struct iovec iov = {h, sizeof(*h)};
	char room[CMSG_SPACE(sizeof(int))];
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = room};
	int fd;

	msg.msg_controllen = sizeof(room);
	NEED(recvmsg(socket, &msg, 0) == sizeof(*h));
	NEED(CMSG_FIRSTHDR(&msg));
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/*
 * A process that has opened nothing: it imports, sends from the other's region by its L_Key, and
 * lets the other's memory be written through the same R_Key at its own QPs.
 */
static int importer(int socket)
{
	static uint64_t buf[8];
	struct setup s = {.type = IBV_QPT_RC};
	struct handles h;
	struct ibv_mr *mr, *own;
	struct ibv_dm *dm;
	struct ibv_sge sge = {.addr = 8, .length = 8};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
	struct end a, b;
	uint64_t value = 0;

	current_case = "importer";
	failures = 0;
	NEED(ctx = ibv_import_device(receive_fd(socket, &h)));
	NEED(!ibv_query_gid(ctx, 1, 0, &gid));
	NEED(pd = ibv_import_pd(ctx, h.pd));
	EXPECT_NULL(ibv_import_mr(pd, h.private_mr), EOPNOTSUPP);
	NEED(mr = ibv_import_mr(pd, h.mr));
	EXPECT(mr->rkey, h.rkey);
	NEED(dm = ibv_import_dm(ctx, h.dm));
	NEED(own = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE));
	make_pair(&a, &b, &s);

	sge.lkey = mr->lkey;
	EXPECT(post_buffer(&b, 1, buf, 8, own->lkey), 0);
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(b.rcq, 1, IBV_WC_SUCCESS);
	EXPECT(buf[0], 4711);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);

	buf[0] = 815;
	sge = (struct ibv_sge){.addr = (uintptr_t)buf, .length = 8, .lkey = own->lkey};
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = 16;
	wr.wr.rdma.rkey = mr->rkey;
	EXPECT(post(a.qp, &wr), 0);
	EXPECT_WC(a.scq, 0, IBV_WC_SUCCESS);
	EXPECT(ibv_memcpy_from_dm(&value, dm, 16, 8), 0);
	EXPECT(value, 815);

	free_end(&a);
	free_end(&b);
	EXPECT(ibv_dereg_mr(own), 0);
	ibv_unimport_mr(mr);
	ibv_unimport_dm(dm);
	ibv_unimport_pd(pd);
	EXPECT(ibv_close_device(ctx), 0);
	return failures;
}

/* One that has a region of the other's device memory until it is killed. */
static int holder(int socket)
{
	struct handles h;
	struct ibv_dm *dm;

	current_case = "holder";
	NEED(ctx = ibv_import_device(receive_fd(socket, &h)));
	NEED(pd = ibv_import_pd(ctx, h.pd));
	NEED(dm = ibv_import_dm(ctx, h.dm));
	NEED(ibv_reg_dm_mr(pd, dm, 0, 64, ACCESS) && ibv_reg_dm_mr(pd, dm, 0, 32, ACCESS));
	NEED(write(socket, &h, sizeof(h)) == sizeof(h));
	for (;;)
		pause();
}

struct process {
	int socket;
	pid_t pid;
};

static struct process the_importer, the_holder;

/* Before this process opens the device. */
static void start(struct process *p, int (*fn)(int socket))
{
	int sockets[2];

	NEED(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets));
	p->pid = fork();
	if (!p->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sockets[0]);
		_exit(fn(sockets[1]));
	}
	close(sockets[1]);
	p->socket = sockets[0];
}

static void import_elsewhere(void)
{
	static uint8_t buf[64];
	struct ibv_dm *dm = new_dm(64);
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 0, 64, ACCESS);
	struct ibv_mr *private_mr = ibv_reg_mr(pd, buf, sizeof(buf), 0);
	struct handles h;
	uint64_t value = 4711;
	int status;

	NEED(mr && private_mr);
	EXPECT(ibv_memcpy_to_dm(dm, 8, &value, 8), 0);
	h = (struct handles){pd->handle, mr->handle, private_mr->handle, dm->handle, mr->rkey};
	send_fd(the_importer.socket, ctx->cmd_fd, &h);
	NEED(waitpid(the_importer.pid, &status, 0) == the_importer.pid);
	EXPECT(status, 0);
	EXPECT(ibv_memcpy_from_dm(&value, dm, 16, 8), 0);
	EXPECT(value, 815);
	EXPECT(ibv_dereg_mr(mr), 0);
	EXPECT(ibv_dereg_mr(private_mr), 0);
	EXPECT(ibv_free_dm(dm), 0);
}

/* What a killed process used is free. */
static void import_killed(void)
{
	struct ibv_dm *dm = new_dm(64);
	struct handles h = {.pd = pd->handle, .dm = dm->handle};

	send_fd(the_holder.socket, ctx->cmd_fd, &h);
	NEED(read(the_holder.socket, &h, sizeof(h)) == sizeof(h));
	EXPECT(ibv_free_dm(dm), EBUSY);
	EXPECT(ibv_dealloc_pd(pd), EBUSY);
	NEED(!kill(the_holder.pid, SIGKILL));
	NEED(waitpid(the_holder.pid, NULL, 0) == the_holder.pid);
	EXPECT(ibv_free_dm(dm), 0);
	EXPECT(ibv_dealloc_pd(pd), 0);
	NEED(pd = ibv_alloc_pd(ctx));
}

int main(int argc, char **argv)
{
	static const struct test_case cases[] = {
		{"dm_limits", dm_limits},
		{"dm_copies", dm_copies},
		{"dm_regions", dm_regions},
		{"dm_traffic", dm_traffic},
		{"import_refused", import_refused},
		{"import_here", import_here},
		{"import_elsewhere", import_elsewhere},
		{"import_killed", import_killed},
	};

	current_case = "start";
	if (argc < 2 || !strcmp(argv[1], "import_elsewhere"))
		start(&the_importer, importer);
	if (argc < 2 || !strcmp(argv[1], "import_killed"))
		start(&the_holder, holder);
	return run_cases(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
