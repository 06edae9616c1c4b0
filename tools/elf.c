/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Reads as much of an ELF file as it takes to know whether a library can be preloaded into it and
 * which libraries it needs itself. The file may be anything: every offset is checked against its
 * size. One thread.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/urxe.h"

struct file {
	const uint8_t *data;
	uint64_t size;
};

static int file_map(const char *path, struct file *f)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *data;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || !st.st_size) {
		close(fd);
		return -EINVAL;
	}
	data = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (data == MAP_FAILED)
		return -errno;
	f->data = data;
	f->size = st.st_size;
	return 0;
}

static void file_unmap(struct file *f)
{
	munmap((void *)f->data, f->size);
}

static const void *file_at(const struct file *f, uint64_t offset, uint64_t len)
{
	if (offset > f->size || len > f->size - offset)
		return NULL;
	return f->data + offset;
}

/* The program headers of an ELF file of our own kind, or NULL. */
static const ElfW(Phdr) * headers(const struct file *f, unsigned *n)
{
	const ElfW(Ehdr) *eh = file_at(f, 0, sizeof(*eh));

	if (!eh || eh->e_phentsize != sizeof(ElfW(Phdr)) || eh->e_phoff % sizeof(uint64_t))
		return NULL;
	*n = eh->e_phnum;
	return file_at(f, eh->e_phoff, (uint64_t)*n * sizeof(ElfW(Phdr)));
}

static const ElfW(Phdr) * header_of_type(const struct file *f, unsigned type)
{
	unsigned i, n = 0;
	const ElfW(Phdr) *ph = headers(f, &n);

	for (i = 0; ph && i < n; i++)
		if (ph[i].p_type == type)
			return &ph[i];
	return NULL;
}

/* What this very program is, as the ELF header of a program of the same kind says it. */
static bool same_kind(const ElfW(Ehdr) * eh)
{
	const ElfW(Ehdr) * self;
	struct file me;
	bool same;

	if (file_map("/proc/self/exe", &me))
		return true;
	self = file_at(&me, 0, sizeof(*self));
	same = self && eh->e_ident[EI_CLASS] == self->e_ident[EI_CLASS] &&
	       eh->e_ident[EI_DATA] == self->e_ident[EI_DATA] && eh->e_machine == self->e_machine;
	file_unmap(&me);
	return same;
}

/* Whose libc, as the name of the dynamic linker tells. */
static int kind_by_interpreter(const struct file *f)
{
	const ElfW(Phdr) *ph = header_of_type(f, PT_INTERP);
	const char *name = ph ? file_at(f, ph->p_offset, ph->p_filesz) : NULL, *slash;

	if (!ph)
		return URXE_ELF_STATIC;
	if (!name || !ph->p_filesz || name[ph->p_filesz - 1])
		return URXE_ELF_DYNAMIC;
	slash = strrchr(name, '/');
	return strncmp(slash ? slash + 1 : name, "ld-musl", 7) ? URXE_ELF_DYNAMIC : URXE_ELF_MUSL;
}

int urxe_elf_kind(const char *path)
{
	const ElfW(Ehdr) * eh;
	struct file f;
	int kind = file_map(path, &f);

	if (kind == -EINVAL)
		return URXE_ELF_OTHER;
	if (kind)
		return kind;
	eh = file_at(&f, 0, sizeof(*eh));
	if (!eh || memcmp(eh->e_ident, ELFMAG, SELFMAG))
		kind = URXE_ELF_OTHER;
	else if (!same_kind(eh))
		kind = URXE_ELF_FOREIGN;
	else
		kind = kind_by_interpreter(&f);
	file_unmap(&f);
	return kind;
}

/* The file offset of a virtual address; 0 if no segment holds it. */
static uint64_t offset_of(const struct file *f, uint64_t addr)
{
	unsigned i, n = 0;
	const ElfW(Phdr) *ph = headers(f, &n);

	for (i = 0; ph && i < n; i++)
		if (ph[i].p_type == PT_LOAD && addr >= ph[i].p_vaddr &&
		    addr - ph[i].p_vaddr < ph[i].p_filesz)
			return addr - ph[i].p_vaddr + ph[i].p_offset;
	return 0;
}

static bool needs(const struct file *f, const char *prefix, char *name, unsigned size)
{
	const ElfW(Phdr) *ph = header_of_type(f, PT_DYNAMIC);
	const ElfW(Dyn) * dyn;
	const char *strings, *s;
	uint64_t i, n, at = 0, len = 0;

	dyn = ph ? file_at(f, ph->p_offset, ph->p_filesz) : NULL;
	if (!dyn)
		return false;
	n = ph->p_filesz / sizeof(*dyn);
	for (i = 0; i < n; i++) {
		if (dyn[i].d_tag == DT_STRTAB)
			at = offset_of(f, dyn[i].d_un.d_ptr);
		else if (dyn[i].d_tag == DT_STRSZ)
			len = dyn[i].d_un.d_val;
	}
	strings = at && len ? file_at(f, at, len) : NULL;
	if (!strings || strings[len - 1])
		return false;
	for (i = 0; i < n; i++) {
		if (dyn[i].d_tag != DT_NEEDED || dyn[i].d_un.d_val >= len)
			continue;
		s = strings + dyn[i].d_un.d_val;
		if (!strncmp(s, prefix, strlen(prefix))) {
			snprintf(name, size, "%s", s);
			return true;
		}
	}
	return false;
}

bool urxe_elf_needs(const char *path, const char *prefix, char *name, unsigned size)
{
	struct file f;
	bool found;

	if (file_map(path, &f))
		return false;
	found = needs(&f, prefix, name, size);
	file_unmap(&f);
	return found;
}
