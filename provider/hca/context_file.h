/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A context's file: what its cmd_fd refers to, as a uverbs file does with a kernel device. A process
 * that is given the descriptor imports the context by it (ibv_import_device(3)): the file says which
 * device, which protection domains there are, and it is the device memory (ibv_alloc_dm(3)) of all
 * contexts that share it. It is a sealed memfd, sparse until device memory is allocated:
 *
 *	+--------+-----------------+------------------+-------------------+---------------------------+
 *	| header | PDs, 1 bit each | DMs, 16 B each   | pages, 1 bit each | device memory             |
 *	+--------+-----------------+------------------+-------------------+---------------------------+
 *	0                                                                 CONTEXT_FILE_DM
 *
 * All processes that have the descriptor may write to it, also children of a fork. Changes are made
 * under the header's robust mutex, in an order that leaves a valid table if the process dies in
 * between. Nothing read here is trusted as an index or a length without a check. Any thread.
 *
 * What is in use is not in the file, because a process may be killed: behind the end, each handle
 * that is used has a byte locked, and the kernel drops those locks with their process.
 */
#ifndef URXE_HCA_CONTEXT_FILE_H
#define URXE_HCA_CONTEXT_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define URXE_PD_BITS  24	    /* of a protection domain's number */
#define URXE_DM_BYTES (64ull << 20) /* of a context; the largest single allocation, too */

struct urxe_context_file {
	int fd;	   /* one of the library's own (host/fd.h); -1: none, and no device memory */
	int locks; /* another one, of the same file; -1: nothing was used so far */
	uint32_t uses;
	struct context_shared *shared;
	uint64_t mapping; /* a number that no other mapping of this process ever has */
};

/* How much a handle of an object is used. All zeros to begin with. */
struct urxe_use {
	atomic_int count;
	uint32_t number;   /* among those of its mapping; 0: not used so far */
	atomic_bool shown; /* to other handles */
};

/* Makes the file of a new context on that device: -errno. */
int urxe_context_file_create(struct urxe_context_file *file, const char *device);
/*
 * Opens the file of another context. The descriptor becomes the file's, under another number,
 * unless this fails: -EBADF no descriptor, -ENOENT no such file, -EPROTONOSUPPORT of another
 * version.
 */
int urxe_context_file_open(struct urxe_context_file *file, int fd);
/* Closes the descriptor and unmaps; allocations stay, as long as anybody has the file. */
void urxe_context_file_close(struct urxe_context_file *file);
/* In the child of a fork: what is used here is so by its parent only. */
void urxe_context_file_forked(struct urxe_context_file *file);
/* The name of the device, at most size - 1 bytes of it. */
void urxe_context_file_device(const struct urxe_context_file *file, char *name, size_t size);

/* Says that there is, or is no more, a protection domain of that number. */
void urxe_context_file_set_pd(struct urxe_context_file *file, uint32_t number, bool there);
bool urxe_context_file_has_pd(const struct urxe_context_file *file, uint32_t number);

/* What can be in use: protection domains, by their number, and allocations of device memory. */
static inline uint32_t urxe_object_of_dm(uint32_t handle)
{
	return (1u << URXE_PD_BITS) + handle;
}

/* Lets other handles see that it is used, or (ends) no longer. -errno: without /proc or
 * descriptors they do not see it. */
int urxe_context_file_show(struct urxe_context_file *file, uint32_t object, struct urxe_use *of,
			   bool ends);

/* n more objects in it (or fewer). -errno as urxe_context_file_show(). */
static inline int urxe_context_file_use(struct urxe_context_file *file, uint32_t object,
					struct urxe_use *of, int n)
{
	int before = atomic_fetch_add(&of->count, n);
	bool ends = !(before + n);

	if (!ends && (before || atomic_load(&of->shown)))
		return 0;
	return urxe_context_file_show(file, object, of, ends);
}

/* By this handle or any other one, in whatever process? */
bool urxe_context_file_used(struct urxe_context_file *file, uint32_t object, struct urxe_use *of);

/*
 * Allocates zeroed device memory, aligned to 2^log_align bytes (a page at least): its handle, or
 * -EINVAL (no bytes, absurd alignment), -ENOMEM.
 */
int urxe_context_file_alloc_dm(struct urxe_context_file *file, uint64_t length, uint32_t log_align);
/* Gives it back: -ENOENT no such handle, -EBUSY there are regions of it, in whatever process. */
int urxe_context_file_free_dm(struct urxe_context_file *file, uint32_t handle, struct urxe_use *of);
/* One more region of it: -ENOENT, or another -errno when other processes would not see that. */
int urxe_context_file_use_dm(struct urxe_context_file *file, uint32_t handle, struct urxe_use *of);
/* Where it lies in this process, and how long it is: -ENOENT. */
int urxe_context_file_find_dm(struct urxe_context_file *file, uint32_t handle, void **addr,
			      uint64_t *length);
/* The address of the file's first byte here. */
static inline void *urxe_context_file_base(const struct urxe_context_file *file)
{
	return file->shared;
}

#endif
