/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Images of the tables; see image.h for the layout and the access rules. A handle does not change
 * once it is made.
 */
#include "mempool/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC	   0x314c4f4f504d454dull /* "MEMPOOL1" */
#define VERSION	   2
#define BLOCKS_BIT 63
#define SEALS	   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

#define load_acquire(p)	    atomic_load_explicit(p, memory_order_acquire)
#define load_relaxed(p)	    atomic_load_explicit(p, memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit(p, v, memory_order_release)

static uint64_t round_page(uint64_t n)
{
	return (n + 4095) & ~4095ull;
}

static void point(struct rmempool_image *image, void *memory)
{
	image->header = memory;
	image->vapa = (void *)((uintptr_t)memory + image->header->vapa_offset);
	image->table = (void *)((uintptr_t)memory + image->header->table_offset);
}

int mempool_memfd(const char *name, unsigned flags, uint64_t bytes)
{
	struct rlimit limit;
	int fd, err;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && bytes > limit.rlim_cur)
		return -EFBIG;
	fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
	if (fd < 0)
		return -errno;
	if (!ftruncate(fd, bytes) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

/* A sealed memfd of that size, mapped. */
static int map_new(size_t bytes, int *fd, void **memory)
{
	int err;

	*fd = mempool_memfd("mempool-image", 0, bytes);
	if (*fd < 0)
		return *fd;
	*memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (*memory != MAP_FAILED) {
		/* Searches touch all of it: use huge pages if the system allows them for memfds. */
		madvise(*memory, bytes, MADV_HUGEPAGE);
		return 0;
	}
	err = -errno;
	close(*fd);
	return err;
}

int mempool_image_create(uint64_t base, unsigned block_shift, uint32_t max_blocks,
			 uint32_t max_runs, unsigned max_rows, struct rmempool_image *image)
{
	struct mempool_image_header header = {
		.magic = MAGIC,
		.version = VERSION,
		.vapa_offset = round_page(sizeof(header)),
		.table_rows = max_rows,
	};
	void *memory;
	int err;

	header.table_offset =
		round_page(header.vapa_offset + mempool_vapa_bytes(max_blocks, max_runs));
	header.bytes = round_page(header.table_offset + mempool_table_bytes(max_rows));
	err = map_new(header.bytes, &image->fd, &memory);
	if (err)
		return err;
	image->own = true;
	image->bytes = header.bytes;
	memcpy(memory, &header, offsetof(struct mempool_image_header, head));
	point(image, memory);
	mempool_vapa_init(image->vapa, base, block_shift, max_blocks, max_runs);
	err = mempool_table_init(image->table, max_rows, &image->table);
	if (err)
		mempool_image_destroy(image);
	return err;
}

void mempool_image_destroy(struct rmempool_image *image)
{
	munmap(image->header, image->bytes);
	close(image->fd);
}

/*
 * The writer is trusted from here on to change the image as the library does. Only its present
 * contents are checked.
 */
static int check(const struct mempool_image_header *h, size_t bytes)
{
	if (h->magic != MAGIC)
		return -EINVAL;
	if (h->version != VERSION)
		return -EPROTONOSUPPORT;
	if (h->bytes > bytes || h->vapa_offset % 64 || h->table_offset % 64 ||
	    h->vapa_offset < sizeof(*h) || h->vapa_offset > h->table_offset ||
	    h->table_offset > h->bytes || h->table_rows > UINT32_MAX ||
	    !mempool_vapa_valid((void *)((uintptr_t)h + h->vapa_offset),
				h->table_offset - h->vapa_offset) ||
	    !mempool_table_valid((void *)((uintptr_t)h + h->table_offset), h->table_rows,
				 h->bytes - h->table_offset))
		return -EINVAL;
	return 0;
}

int rmempool_image_open(int fd, struct rmempool_image **out)
{
	struct rmempool_image *image;
	struct stat st;
	void *memory;
	int err, seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    st.st_size < (off_t)sizeof(struct mempool_image_header))
		return -EINVAL;
	image = calloc(1, sizeof(*image));
	if (!image)
		return -ENOMEM;
	memory = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		err = -errno;
		free(image);
		return err;
	}
	err = check(memory, st.st_size);
	if (err) {
		munmap(memory, st.st_size);
		free(image);
		return err;
	}
	image->fd = fd;
	image->own = true;
	image->bytes = st.st_size;
	point(image, memory);
	*out = image;
	return 0;
}

void rmempool_image_close(struct rmempool_image *image)
{
	if (image && image->own)
		munmap(image->header, image->bytes);
	free(image);
}

int rmempool_image_fd(const struct rmempool_image *image)
{
	return image->fd;
}

static void append(struct rmempool_image *image, uint64_t word)
{
	struct mempool_image_header *h = image->header;
	uint64_t head = load_relaxed(&h->head);

	store_release(&h->log[head % MEMPOOL_LOG_WORDS], word);
	store_release(&h->head, head + 1);
}

void mempool_image_log_key(struct rmempool_image *image, uint32_t key)
{
	append(image, key);
}

void mempool_image_log_blocks(struct rmempool_image *image, uint32_t first, uint32_t count)
{
	append(image, 1ull << BLOCKS_BIT | (uint64_t)first << 32 | count);
}

int mempool_image_next(const struct rmempool_image *image, uint64_t *seen,
		       struct mempool_change *change)
{
	const struct mempool_image_header *h = image->header;
	uint64_t head = load_acquire(&h->head), word;

	if (head == *seen)
		return 0;
	word = load_acquire(&h->log[*seen % MEMPOOL_LOG_WORDS]);
	/* The oldest word that is still readable may be about to be overwritten. */
	head = load_acquire(&h->head);
	if (head - *seen >= MEMPOOL_LOG_WORDS) {
		*seen = head;
		return -1;
	}
	++*seen;
	*change = (struct mempool_change){
		.blocks = word >> BLOCKS_BIT,
		.key = (uint32_t)word,
		.first = (uint32_t)(word >> 32) & 0x7fffffff,
		.count = (uint32_t)word,
	};
	return 1;
}
