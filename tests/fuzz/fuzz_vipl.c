/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Descriptors of any bits, posted to the queues of a VI over a device of the fuzzer's own, which
 * completes work requests in any way, also with the headers of an iWARP peer. Each piece of memory
 * that the device is told to use must be one that the VI may use so, and every descriptor that a
 * queue has taken must come back, once and in order.
 *
 *	byte 0: 1 unreliable, 2 iWARP, 4 not connected yet
 *	then steps: what to do, and its arguments (step())
 */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vipl/handle.h"
#include "vipl/helper.h"
#include "vipl/nic.h"
#include "vipl/post.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS	    16
#define SLOT_SIZE   1024
#define REGION_SIZE (SLOTS * SLOT_SIZE)
#define BUFFER_MAX  64

enum { READ_WRITE = 1, READ_ONLY, OTHER_TAG, LKEY_HEADERS = 600, LKEY_BUFFER = 700 };

static struct vipl_nic nic;
static struct vipl_vi *vi;
static struct vipl_cq cqs[2];
static struct ibv_context context;
static struct ibv_qp qp;
static struct ibv_cq cq = {.context = &context};
static const struct ibv_wc *completion; /* that the device has; NULL: none */
static uint8_t *region;
static const uint8_t *input, *input_end;

/* Buffers of the pool; their keys are LKEY_BUFFER and on. */
static struct {
	uint8_t *addr;
	size_t length;
} buffers[BUFFER_MAX];

/* What the device has: of the send queue, then of the receive queue. */
struct request {
	uint64_t id;
	bool signaled;
	int count;
	struct ibv_sge sge[VIPL_MAX_SGE + 1];
};
static struct device_queue {
	struct request requests[VIPL_DEPTH + VIPL_EXTRA_WRS];
	unsigned head, tail;
} device[2];
static VIP_DESCRIPTOR *expected[2][VIPL_DEPTH];
static unsigned taken[2];

static uint8_t byte(void)
{
	return input < input_end ? *input++ : 0;
}

static void need(bool good)
{
	if (!good)
		abort();
}

int vipl_memory_access(struct vipl_nic *of, VIP_MEM_HANDLE handle, struct vipl_ptag *ptag,
		       struct vipl_access *access)
{
	if (!handle || handle > OTHER_TAG)
		return -ENOENT;
	*access = (struct vipl_access){.key = vipl_access_key(handle, nic.memory_generation),
				       .addr = (uintptr_t)region,
				       .length = REGION_SIZE,
				       .lkey = 100 + handle,
				       .writable = handle != READ_ONLY};
	return handle == OTHER_TAG ? -EACCES : 0;
}

int vipl_buffer_get(struct vipl_domain *domain, size_t length, void **addr, uint32_t *lkey)
{
	for (unsigned i = 0; i < BUFFER_MAX; i++) {
		if (buffers[i].addr)
			continue;
		buffers[i].addr = malloc(length);
		buffers[i].length = length;
		memset(buffers[i].addr, 0, length);
		*addr = buffers[i].addr;
		*lkey = LKEY_BUFFER + i;
		return 0;
	}
	return -ENOMEM;
}

void vipl_buffer_put(struct vipl_domain *domain, void *addr)
{
	for (unsigned i = 0; i < BUFFER_MAX; i++) {
		if (buffers[i].addr != addr)
			continue;
		free(addr);
		buffers[i].addr = NULL;
		return;
	}
	abort();
}

void vipl_report_vi(struct vipl_vi *of, VIP_ERROR_CODE code, VIP_DESCRIPTOR *descriptor,
		    unsigned control)
{
}

void vipl_vi_mark(struct vipl_queue *queue, VIP_ERROR_CODE code)
{
}

int vipl_cq_reserve(struct vipl_cq *of, unsigned count)
{
	return 0;
}

bool vipl_cq_make_room(struct vipl_cq *of)
{
	return false;
}

void vipl_cq_run_deferred(struct vipl_cq *of, unsigned deferred)
{
	of->deferred = 0;
	owned_unlock(&of->lock);
}

static int poll_cq(struct ibv_cq *of, int count, struct ibv_wc *wc)
{
	if (!completion)
		return 0;
	*wc = *completion;
	completion = NULL;
	return 1;
}

/* A piece of memory that the device reads, or writes. */
static void use(const struct ibv_sge *sge, bool write)
{
	uint8_t *addr = (uint8_t *)(uintptr_t)sge->addr, *from = region, sum = 0;
	size_t length = REGION_SIZE;

	if (sge->lkey == LKEY_HEADERS) {
		from = (uint8_t *)vi->headers;
		length = VIPL_HEADERS * sizeof(*vi->headers);
	} else if (sge->lkey >= LKEY_BUFFER) {
		need(sge->lkey < LKEY_BUFFER + BUFFER_MAX);
		from = buffers[sge->lkey - LKEY_BUFFER].addr;
		length = buffers[sge->lkey - LKEY_BUFFER].length;
	} else {
		need(sge->lkey == 100 + READ_WRITE || (sge->lkey == 100 + READ_ONLY && !write));
	}
	need(from && addr >= from && sge->length <= length &&
	     (size_t)(addr - from) <= length - sge->length);
	for (uint32_t i = 0; i < sge->length; i++)
		sum += addr[i];
	if (write && sge->lkey >= LKEY_HEADERS && sge->length)
		addr[0] = sum;
}

static int take_request(bool recv, uint64_t id, const struct ibv_sge *list, int count,
			bool signaled, bool write)
{
	struct device_queue *queue = &device[recv];
	struct request *request = &queue->requests[queue->tail % (VIPL_DEPTH + VIPL_EXTRA_WRS)];

	need(count <= VIPL_MAX_SGE + 1 && queue->tail - queue->head < VIPL_DEPTH + VIPL_EXTRA_WRS);
	if (byte() % 64 == 63)
		return ENOMEM;
	for (int i = 0; i < count; i++)
		use(&list[i], write);
	*request = (struct request){.id = id, .signaled = signaled, .count = count};
	memcpy(request->sge, list, count * sizeof(*list));
	queue->tail++;
	return 0;
}

static int post_send(struct ibv_qp *of, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (; wr; wr = wr->next) {
		bool read = wr->opcode == IBV_WR_RDMA_READ;

		need(wr->num_sge <= (int)(read ? nic.read_sge : nic.send_sge) + nic.iwarp);
		need(!read || (vi->may_read && !(wr->send_flags & IBV_SEND_INLINE)));
		if (take_request(false, wr->wr_id, wr->sg_list, wr->num_sge,
				 wr->send_flags & IBV_SEND_SIGNALED, read)) {
			*bad = wr;
			return ENOMEM;
		}
	}
	return 0;
}

static int post_recv(struct ibv_qp *of, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return take_request(true, wr->wr_id, wr->sg_list, wr->num_sge, true, true);
}

/* The next request completes; the peer's header has any content. */
static void complete(bool recv, enum ibv_wc_status status)
{
	static const enum ibv_wc_opcode opcodes[] = {IBV_WC_RECV, IBV_WC_RECV_RDMA_WITH_IMM};
	struct device_queue *queue = &device[recv];
	struct ibv_wc wc = {.status = status};
	struct request *request;

	if (queue->head == queue->tail)
		return;
	request = &queue->requests[queue->head++ % (VIPL_DEPTH + VIPL_EXTRA_WRS)];
	wc.wr_id = request->id;
	if (!request->signaled && !status)
		return;
	if (recv) {
		uint64_t room = 0;

		for (int i = 0; i < request->count; i++) {
			use(&request->sge[i], true);
			room += request->sge[i].length;
		}
		for (unsigned i = 0; vi->headers && i < sizeof(struct vipl_header); i++)
			((uint8_t *)(uintptr_t)request->sge[0].addr)[i] = byte();
		wc.opcode = opcodes[!vi->headers && byte() % 2];
		wc.byte_len = (byte() << 8 | byte()) % (room + 1);
		wc.wc_flags = byte() % 2 && !vi->headers ? IBV_WC_WITH_IMM : 0;
	}
	completion = &wc;
	vipl_cq_poll(&cqs[recv]);
}

/* A descriptor of any bits, but for its addresses, which lie about the region. */
static VIP_DESCRIPTOR *write_descriptor(void)
{
	VIP_DESCRIPTOR *descriptor = (VIP_DESCRIPTOR *)(region + byte() % SLOTS * SLOT_SIZE);
	VIP_DATA_SEGMENT *segment = &descriptor->DS[0].Local;
	unsigned segments = byte();

	memset(descriptor, 0, sizeof(*descriptor));
	descriptor->CS.SegCount = segments < 250 ? segments % 62 : segments << 8;
	descriptor->CS.Control = byte() % 32;
	for (unsigned i = 0; i < segments % 62; i++, segment++) {
		segment->Data.AddressBits = (uintptr_t)region + (byte() << 8 | byte()) - 16;
		segment->Handle = byte() % 16 ? READ_WRITE : byte() % 5;
		segment->Length = byte();
		if (i || !(descriptor->CS.Control & VIP_CONTROL_OP_MASK))
			descriptor->CS.Length += segment->Length;
	}
	if (byte() % 16 == 15)
		descriptor->CS.Length ^= 1;
	return descriptor;
}

static void post(bool recv)
{
	struct vipl_queue *queue = recv ? &vi->rq : &vi->sq;
	VIP_DESCRIPTOR *descriptor = write_descriptor();
	unsigned kind = byte(), tail = queue->tail;

	if (kind % 16 == 15)
		descriptor = (VIP_DESCRIPTOR *)((uint8_t *)descriptor + kind - 128);
	need((recv ? VipPostRecv : VipPostSend)(vi->handle, descriptor,
						kind % 16 == 14 ? kind >> 4 : READ_WRITE) ==
	     VIP_SUCCESS);
	if (queue->tail != tail)
		expected[recv][tail % VIPL_DEPTH] = descriptor;
}

static bool take(bool recv)
{
	struct vipl_queue *queue = recv ? &vi->rq : &vi->sq;
	VIP_RETURN result;
	VIP_DESCRIPTOR *descriptor;

	result = vipl_queue_take(queue, &descriptor);
	if (result == VIP_NOT_DONE || !descriptor)
		return false;
	need(descriptor == expected[recv][taken[recv]++ % VIPL_DEPTH]);
	return true;
}

static void change(unsigned what)
{
	struct vipl_queue *queue = &vi->rq;

	if (what % 4 == 0) {
		nic.memory_generation++;
	} else if (what % 4 == 1 && queue->mode == VIPL_HOLD) {
		vipl_queue_set_mode(&vi->sq, VIPL_OPEN);
		vipl_post_held(queue);
		vipl_queue_set_mode(queue, VIPL_OPEN);
	} else if (what % 4 == 2 && queue->mode == VIPL_OPEN) {
		vipl_queue_set_mode(&vi->sq, VIPL_REFUSE);
		vipl_queue_set_mode(queue, VIPL_REFUSE);
	}
}

static void step(void)
{
	static const enum ibv_wc_status statuses[] = {IBV_WC_WR_FLUSH_ERR, IBV_WC_LOC_LEN_ERR,
						      IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR};
	unsigned what = byte();
	bool recv = what & 1;

	switch (what >> 1 & 7) {
	case 0:
	case 1:
	case 2: post(recv); break;
	case 3:
	case 4: complete(recv, IBV_WC_SUCCESS); break;
	case 5: complete(recv, statuses[byte() % 4]); break;
	case 6: take(recv); break;
	case 7: change(byte()); break;
	}
}

static void open_queue(struct vipl_queue *queue, bool recv, enum vipl_mode mode)
{
	queue->cq = &cqs[recv];
	queue->cq->ibv = &cq;
	queue->vi = vi;
	queue->nic = &nic;
	queue->memory_generation = &nic.memory_generation;
	queue->slots = calloc(VIPL_DEPTH, sizeof(*queue->slots));
	queue->mask = VIPL_SHORT - 1;
	queue->wr_id = (uintptr_t)queue;
	queue->recv = recv;
	queue->mode = mode;
	queue->max_sge = nic.send_sge;
}

static void open_vi(unsigned flags)
{
	static struct vipl_domain domain;

	context.ops.post_send = post_send;
	context.ops.post_recv = post_recv;
	context.ops.poll_cq = poll_cq;
	qp.context = &context;
	region = aligned_alloc(64, REGION_SIZE);
	memset(region, 0, REGION_SIZE);
	memset(device, 0, sizeof(device));
	memset(taken, 0, sizeof(taken));
	nic.iwarp = flags & 2;
	nic.send_sge = nic.recv_sge = VIPL_MAX_SGE;
	nic.read_sge = nic.iwarp ? 1 : VIPL_MAX_SGE;
	vi = aligned_alloc(64, sizeof(*vi));
	memset(vi, 0, sizeof(*vi));
	vi->nic = &nic;
	vi->qp = &qp;
	vi->domain = &domain;
	vi->reliable = vi->may_read = !(flags & 1);
	vi->attributes.MaxTransferSize = 8192;
	vi->attributes.ReliabilityLevel =
		vi->reliable ? VIP_SERVICE_RELIABLE_DELIVERY : VIP_SERVICE_UNRELIABLE;
	vi->max_inline = 64;
	vi->headers = nic.iwarp ? calloc(VIPL_HEADERS, sizeof(*vi->headers)) : NULL;
	vi->headers_lkey = LKEY_HEADERS;
	open_queue(&vi->sq, false, flags & 4 ? VIPL_REFUSE : VIPL_OPEN);
	open_queue(&vi->rq, true, flags & 4 ? VIPL_HOLD : VIPL_OPEN);
	vi->handle = vipl_handle_create(VIPL_KIND_VI, vi);
}

/* All that is left comes back, and no buffer is forgotten. */
static void close_vi(void)
{
	for (int recv = 0; recv < 2; recv++) {
		struct vipl_queue *queue = recv ? &vi->rq : &vi->sq;

		vipl_queue_flush(queue);
		while (take(recv))
			;
		need(taken[recv] == queue->tail);
		free(queue->slots);
	}
	for (unsigned i = 0; i < BUFFER_MAX; i++)
		need(!buffers[i].addr);
	vipl_handle_destroy(vi->handle);
	free(vi->headers);
	free(vi);
	free(region);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = data;
	input_end = data + size;
	open_vi(byte());
	while (input < input_end)
		step();
	close_vi();
	return 0;
}
