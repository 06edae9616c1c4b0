/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The verbs that are not one line: several symbols for one operation (registration), structures
 * whose size the caller says, results that differ, and verbs that a software adapter without a
 * kernel object cannot have (dmabuf, DMA handles, completion counters),
 * which answer EOPNOTSUPP for our objects as libibverbs does for a driver without them.
 *
 * Some are younger than the installed verbs.h. They are declared here, so that a program built with
 * a newer libibverbs is served as well; in front of an older one nobody asks for them.
 *
 * Called by any thread of the program; there is no state but the looked-up next definitions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

#include "hca/verbs.h"
#include "host/device.h"
#include "preload/preload.h"

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* The result of a verb that our objects do not have. */
#define UNSUPPORTED_ERRNO EOPNOTSUPP
#define UNSUPPORTED_MINUS (errno = EOPNOTSUPP, -1)
#define UNSUPPORTED_NULL  (errno = EOPNOTSUPP, NULL)

/* A verb that a urxe object refuses with one of the above. */
#define REFUSED(result, symbol, version, params, args, context_of, refusal)                  \
	URXE_SERVED_VERB(result, symbol, version, params, args, urxe_is_context(context_of), \
			 refusal, refusal)

/*
 * The port as programs built before port_cap_flags2 know it: verbs.h hands the whole structure to
 * the context's operation, and this symbol may write no more than what came before that field.
 */
static int query_port(struct ibv_context *context, uint8_t port,
		      struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr attr = {0};
	int ret = compat ? urxe_query_port(context, port, &attr) : EINVAL;

	if (!ret)
		memcpy(compat, &attr, offsetof(struct ibv_port_attr, port_cap_flags2));
	return ret;
}

URXE_SERVED_VERB(int, ibv_query_port, "IBVERBS_1.1",
		 (struct ibv_context * context, uint8_t port, struct _compat_ibv_port_attr *compat),
		 (context, port, compat), urxe_is_context(context),
		 query_port(context, port, compat), ENOSYS)

URXE_SERVED_VERB(struct ibv_mr *, ibv_reg_mr, "IBVERBS_1.1",
		 (struct ibv_pd * pd, void *addr, size_t length, int access),
		 (pd, addr, length, access), urxe_is_context(pd->context),
		 urxe_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, access), URXE_NOBODY_NULL)

URXE_SERVED_VERB(struct ibv_mr *, ibv_reg_mr_iova, "IBVERBS_1.7",
		 (struct ibv_pd * pd, void *addr, size_t length, uint64_t iova, int access),
		 (pd, addr, length, iova, access), urxe_is_context(pd->context),
		 urxe_reg_mr_iova2(pd, addr, length, iova, access), URXE_NOBODY_NULL)

/* GIDs. The caller says how large its entry is; a larger one than ours is of a newer header, whose
 * further fields read as zero. */
static int query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, void *entry,
			uint32_t flags, size_t size)
{
	struct ibv_gid_entry ours = {0};
	int ret = urxe_query_gid_ex(context, port, index, entry ? &ours : NULL, flags);

	if (ret)
		return ret;
	if (size > sizeof(ours))
		memset((char *)entry + sizeof(ours), 0, size - sizeof(ours));
	memcpy(entry, &ours, size < sizeof(ours) ? size : sizeof(ours));
	return 0;
}

URXE_SERVED_VERB(int, _ibv_query_gid_ex, "IBVERBS_1.11",
		 (struct ibv_context * context, uint32_t port, uint32_t index,
		  struct ibv_gid_entry *entry, uint32_t flags, size_t size),
		 (context, port, index, entry, flags, size), urxe_is_context(context),
		 query_gid_ex(context, port, index, entry, flags, size), ENOSYS)

/* The table for a caller whose entries have another size than ours. */
static ssize_t query_gid_table_sized(struct ibv_context *context, void *entries, size_t max,
				     uint32_t flags, size_t size)
{
	size_t room = max < URXE_MAX_GIDS ? max : URXE_MAX_GIDS;
	size_t common = size < sizeof(struct ibv_gid_entry) ? size : sizeof(struct ibv_gid_entry);
	struct ibv_gid_entry *ours = calloc(room ? room : 1, sizeof(*ours));
	ssize_t i, n;

	if (!ours)
		return -ENOMEM;
	n = urxe_query_gid_table(context, entries ? ours : NULL, room, flags);
	for (i = 0; i < n; i++) {
		memset((char *)entries + i * size, 0, size);
		memcpy((char *)entries + i * size, &ours[i], common);
	}
	free(ours);
	return n;
}

URXE_SERVED_VERB(ssize_t, _ibv_query_gid_table, "IBVERBS_1.11",
		 (struct ibv_context * context, struct ibv_gid_entry *entries, size_t max,
		  uint32_t flags, size_t size),
		 (context, entries, max, flags, size), urxe_is_context(context),
		 size == sizeof(*entries)
			 ? urxe_query_gid_table(context, entries, max, flags)
			 : query_gid_table_sized(context, entries, max, flags, size),
		 -ENOSYS)

/*
 * Private to rdma-core and yet called by ibv_devinfo and pyverbs, in the version of whatever
 * rdma-core they were built with. An unused slot counts as RoCE v1 (0), and so it was when this was
 * read from a file in sysfs. Returns 0, or -1.
 */
#define SYSFS_ROCE_V1 0
#define SYSFS_ROCE_V2 1

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);

static int query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type)
{
	struct ibv_gid_entry entry = {0};
	int ret = urxe_query_gid_ex(context, port, index, &entry, 0);

	if (ret && ret != ENODATA) {
		errno = ret;
		return -1;
	}
	*type = !ret && entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? SYSFS_ROCE_V2 : SYSFS_ROCE_V1;
	return 0;
}

URXE_SERVED_VERB(int, ibv_query_gid_type, NULL,
		 (struct ibv_context * context, uint8_t port, unsigned index, int *type),
		 (context, port, index, type), urxe_is_context(context),
		 query_gid_type(context, port, index, type), URXE_NOBODY_MINUS)

/* The speed of a port in units of 100 Mb/s. Returns 0 or an errno. */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);

static int query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	struct urxe_device *dev = urxe_device_by_name(context->device->name);
	struct urxe_port *own = dev ? urxe_device_port(dev, port) : NULL;

	if (!own)
		return EINVAL;
	urxe_device_lock();
	*speed = own->speed_mbps / 100;
	urxe_device_unlock();
	return 0;
}

URXE_SERVED_VERB(int, ibv_query_port_speed, "IBVERBS_1.16",
		 (struct ibv_context * context, uint32_t port, uint64_t *speed),
		 (context, port, speed), urxe_is_context(context),
		 query_port_speed(context, port, speed), ENOSYS)

/* The context of the object that an event is about; NULL for an event of the port or device, which
 * needs no acknowledgement. */
static struct ibv_context *event_context(const struct ibv_async_event *event)
{
	switch (urxe_event_about(event->event_type)) {
	case URXE_ABOUT_CQ: return event->element.cq->context;
	case URXE_ABOUT_QP: return event->element.qp->context;
	case URXE_ABOUT_SRQ: return event->element.srq->context;
	case URXE_ABOUT_WQ: return event->element.wq->context;
	default: return NULL;
	}
}

static bool event_is_ours(const struct ibv_async_event *event)
{
	struct ibv_context *context = event_context(event);

	return context && urxe_is_context(context);
}

URXE_SERVED_VERB(void, ibv_ack_async_event, "IBVERBS_1.1", (struct ibv_async_event * event),
		 (event), event_is_ours(event), urxe_ack_async_event(event), (void)0)

URXE_SERVED_VERB(void, ibv_ack_cq_events, "IBVERBS_1.1", (struct ibv_cq * cq, unsigned n), (cq, n),
		 urxe_is_context(cq->context), urxe_ack_cq_events(cq, n), (void)0)

/* What our objects do not have */
struct ibv_buf;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps,
			      size_t size);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
			    struct ibv_qp_attach_comp_cntr_attr *attr);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context,
					   struct ibv_comp_cntr_init_attr *attr);
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);

/* clang-format off */
REFUSED(struct ibv_mr *, ibv_reg_dmabuf_mr, "IBVERBS_1.12", (struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access), (pd, offset, length, iova, fd, access), pd->context, UNSUPPORTED_NULL)
REFUSED(struct ibv_dmah *, ibv_alloc_dmah, "IBVERBS_1.15", (struct ibv_context *context, struct ibv_dmah_init_attr *attr), (context, attr), context, UNSUPPORTED_NULL)
REFUSED(int, ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", (struct ibv_dm *dm), (dm), dm->context, UNSUPPORTED_MINUS)
REFUSED(int, _ibv_query_comp_cntr_caps, "IBVERBS_1.18", (struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size), (context, caps, size), context, UNSUPPORTED_ERRNO)
REFUSED(struct ibv_comp_cntr *, ibv_create_comp_cntr, "IBVERBS_1.18", (struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr), (context, attr), context, UNSUPPORTED_NULL)
REFUSED(int, ibv_qp_attach_comp_cntr, "IBVERBS_1.18", (struct ibv_qp *qp, struct ibv_comp_cntr *counter, struct ibv_qp_attach_comp_cntr_attr *attr), (qp, counter, attr), qp->context, UNSUPPORTED_ERRNO)
/* clang-format on */

#define UNIMPORT(name, version, type)                                        \
	URXE_SERVED_VERB(void, ibv_##name, version, (type object), (object), \
			 urxe_is_context(object->context), urxe_##name(object), (void)0)

UNIMPORT(unimport_pd, "IBVERBS_1.10", struct ibv_pd *)
UNIMPORT(unimport_mr, "IBVERBS_1.10", struct ibv_mr *)
UNIMPORT(unimport_dm, "IBVERBS_1.13", struct ibv_dm *)
