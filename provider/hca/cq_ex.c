/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The extended polling interface, ibv_create_cq_ex(3): start_poll, next_poll and end_poll
 * walk the same ring as ibv_poll_cq(), the read functions look at the entry taken last. One
 * thread at a time is between start_poll and end_poll; others wait, unless the program has
 * promised that there are none.
 */
#include <errno.h>
#include <time.h>

#include "hca/hca.h"

static struct urxe_cq *of(struct ibv_cq_ex *ex)
{
	return caa_container_of(ex, struct urxe_cq, ex);
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return urxe_cq_take_next(of(ex)) ? 0 : ENOENT;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	if (urxe_inherited(of(ex)->forks))
		return ENOENT;
	if (attr->comp_mask)
		return EINVAL;
	return urxe_cq_take_first(of(ex));
}

static void end_poll(struct ibv_cq_ex *ex)
{
	urxe_unlock(&of(ex)->batch);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return of(ex)->current.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return 0;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return of(ex)->current.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return of(ex)->current.imm;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return of(ex)->current.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return of(ex)->current.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return of(ex)->current.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return of(ex)->current.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return of(ex)->current.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return of(ex)->current.dlid_path_bits;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ex)
{
	return of(ex)->current.flow_tag;
}

static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	return of(ex)->current.imm;
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	info->tag = of(ex)->current.tag;
	info->priv = of(ex)->current.tm_priv;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return of(ex)->current.timestamp;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	struct timespec mono, real;

	clock_gettime(CLOCK_MONOTONIC, &mono);
	clock_gettime(CLOCK_REALTIME, &real);
	return of(ex)->current.timestamp + (real.tv_sec - mono.tv_sec) * 1000000000ull +
	       real.tv_nsec - mono.tv_nsec;
}

void urxe_cq_ex_fill(struct urxe_cq *cq, uint64_t wc_flags)
{
	struct ibv_cq_ex *ex = &cq->ex;

	cq->want_timestamp = wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_wc_flags = read_wc_flags;
	if (wc_flags & IBV_WC_EX_WITH_BYTE_LEN)
		ex->read_byte_len = read_byte_len;
	if (wc_flags & IBV_WC_EX_WITH_IMM)
		ex->read_imm_data = read_imm_data;
	if (wc_flags & IBV_WC_EX_WITH_QP_NUM)
		ex->read_qp_num = read_qp_num;
	if (wc_flags & IBV_WC_EX_WITH_SRC_QP)
		ex->read_src_qp = read_src_qp;
	if (wc_flags & IBV_WC_EX_WITH_SLID)
		ex->read_slid = read_slid;
	if (wc_flags & IBV_WC_EX_WITH_SL)
		ex->read_sl = read_sl;
	if (wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS)
		ex->read_dlid_path_bits = read_dlid_path_bits;
	if (wc_flags & IBV_WC_EX_WITH_FLOW_TAG)
		ex->read_flow_tag = read_flow_tag;
	if (wc_flags & IBV_WC_EX_WITH_CVLAN)
		ex->read_cvlan = read_cvlan;
	if (wc_flags & IBV_WC_EX_WITH_TM_INFO)
		ex->read_tm_info = read_tm_info;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		ex->read_completion_ts = read_completion_ts;
	if (wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
}
