// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * mlx4's virtual functions by sysfs (drivers/infiniband/hw/mlx4/sysfs.c). P_Keys are mapped before
 * the GUID is set: the driver asks the SM for the GUID at once, and repeats after 1, 2 … 60 s what
 * is declined. Any thread.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate/function_mlx4.h"

#define NO_GUID	   UINT64_MAX /* MLX4_GUID_FOR_DELETE_VAL */
#define VALUE_LEN  64
#define PORT_PKEYS 128

/* "mlx4_0:1" and where its files are. */
struct place {
	char device[32];
	unsigned port;
	char folder[PATH_MAX / 4]; /* of the device */
};

static int find_place(struct place *place, const char *root, const char *where)
{
	if (sscanf(where, "%31[^:/]:%u", place->device, &place->port) != 2 || !place->port)
		return -EINVAL;
	snprintf(place->folder, sizeof(place->folder), "%s/class/infiniband/%s", root,
		 place->device);
	return 0;
}

__attribute__((format(printf, 3, 4))) static void file_of(const struct place *place, char *path,
							  const char *format, ...)
{
	int len = snprintf(path, PATH_MAX, "%s/", place->folder);
	va_list args;

	va_start(args, format);
	vsnprintf(path + len, PATH_MAX - len, format, args);
	va_end(args);
}

static int read_value(const char *path, char value[VALUE_LEN])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, value, VALUE_LEN - 1);
	close(fd);
	if (n <= 0)
		return -EIO;
	value[n] = '\0';
	return 0;
}

/* A whole number and nothing else; what is not there, or no number, is -EIO. */
static int read_number(const char *path, int base, uint64_t *number)
{
	char value[VALUE_LEN], *end;
	int ret = read_value(path, value);

	if (ret)
		return ret == -ENOENT ? -EIO : ret;
	*number = strtoull(value, &end, base);
	return isxdigit((unsigned char)*value) && end != value && (!*end || !strcmp(end, "\n"))
		       ? 0
		       : -EIO;
}

/* One write() is one value. */
static int write_value(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, value, strlen(value));
	ret = n == (ssize_t)strlen(value) ? 0 : n < 0 ? -errno : -EIO;
	close(fd);
	return ret;
}

/* The PCI address of a function, "0000:04:00.1". */
static int pci_of(const struct place *place, int number, char pci[VALUE_LEN])
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *base;
	ssize_t n;

	file_of(place, path, "device/virtfn%d", number);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return -errno;
	target[n] = '\0';
	base = strrchr(target, '/');
	snprintf(pci, VALUE_LEN, "%.*s", VALUE_LEN - 1, base ? base + 1 : target);
	return 0;
}

static int guid_file(const struct place *place, int number, char *path)
{
	char pci[VALUE_LEN];
	uint64_t index;
	int ret = pci_of(place, number, pci);

	if (ret)
		return ret;
	file_of(place, path, "iov/%s/ports/%u/gid_idx/0", pci, place->port);
	ret = read_number(path, 10, &index);
	if (!ret)
		file_of(place, path, "iov/ports/%u/admin_guids/%" PRIu64, place->port, index);
	return ret;
}

static int read_guid(const struct place *place, int number, uint64_t *guid)
{
	char path[PATH_MAX];
	int ret = guid_file(place, number, path);

	if (!ret)
		ret = read_number(path, 16, guid);
	if (!ret && *guid == NO_GUID)
		*guid = 0;
	return ret;
}

/* num_vfs=2,1,0: a function may have the other port alone. */
static bool is_of_other_port(const struct place *place, const char *pci)
{
	char path[PATH_MAX];

	file_of(place, path, "iov/%s/ports/%u", pci, place->port);
	if (!access(path, F_OK))
		return false;
	file_of(place, path, "iov/%s/ports", pci);
	return !access(path, F_OK);
}

/* Does a driver of this host hold it? vfio-pci only keeps it for guests. */
static bool is_busy(const struct place *place, int number)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *base;
	ssize_t n;

	file_of(place, path, "device/virtfn%d/driver", number);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	base = strrchr(target, '/');
	return strcmp(base ? base + 1 : target, "vfio-pci") != 0;
}

int mlx4_list(const char *root, const char *where, struct function *functions, size_t room)
{
	struct place place;
	int ret = find_place(&place, root, where), count = 0;
	char pci[VALUE_LEN];

	for (int n = 0; !ret && (size_t)count < room; n++) {
		struct function f = {.number = n};

		ret = pci_of(&place, n, pci);
		if (ret || is_of_other_port(&place, pci))
			continue;
		ret = read_guid(&place, n, &f.guid);
		f.busy = is_busy(&place, n);
		functions[count++] = f;
	}
	if (ret && ret != -ENOENT) /* the last one has no successor */
		return ret;
	return count ? count : -ENODEV;
}

/* The index of a P_Key in the port's table; full membership and limited are different keys. */
static int pkey_index(const struct place *place, uint16_t pkey)
{
	char path[PATH_MAX], value[VALUE_LEN];

	for (int i = 0; i < PORT_PKEYS; i++) {
		file_of(place, path, "ports/%u/pkeys/%d", place->port, i);
		if (read_value(path, value))
			break;
		if (strtoul(value, NULL, 16) == pkey)
			return i;
	}
	return -ENOENT;
}

int mlx4_fits(const char *root, const char *where, const struct record *record, char *reason,
	      size_t len)
{
	struct place place;
	int ret = find_place(&place, root, where);

	for (unsigned i = 0; !ret && i < record->num_pkeys; i++) {
		if (!record->pkeys[i] || pkey_index(&place, record->pkeys[i]) >= 0)
			continue;
		snprintf(reason, len, "port %u of %s does not have P_Key 0x%04x", place.port,
			 place.device, record->pkeys[i]);
		return -ENOENT;
	}
	return ret;
}

/* A P_Key of the function is the port's with that index; -1: none. */
static int map_pkey(const struct place *place, const char *pci, unsigned i, int index)
{
	char path[PATH_MAX], value[VALUE_LEN] = "none";

	if (index >= 0)
		snprintf(value, sizeof(value), "%d", index);
	file_of(place, path, "iov/%s/ports/%u/pkey_idx/%u", pci, place->port, i);
	return write_value(path, value);
}

/* What the guest before had does not stay. */
static int unmap_pkeys(const struct place *place, const char *pci, unsigned first)
{
	int ret = 0;

	while (!ret)
		ret = map_pkey(place, pci, first++, -1);
	return ret == -ENOENT ? 0 : ret;
}

static int map_pkeys(const struct place *place, int number, const struct record *record)
{
	char pci[VALUE_LEN];
	int ret = pci_of(place, number, pci);

	for (unsigned i = 0; !ret && i < record->num_pkeys; i++) {
		int index = record->pkeys[i] ? pkey_index(place, record->pkeys[i]) : -1;

		if (record->pkeys[i] && index < 0)
			return index;
		ret = map_pkey(place, pci, i, index);
	}
	return ret || !record->num_pkeys ? ret : unmap_pkeys(place, pci, record->num_pkeys);
}

/* As the driver begins: the first one alone. */
static int reset_pkeys(const struct place *place, int number)
{
	char pci[VALUE_LEN];
	int ret = pci_of(place, number, pci);

	if (!ret)
		ret = map_pkey(place, pci, 0, 0);
	return ret ? ret : unmap_pkeys(place, pci, 1);
}

static int write_guid(const struct place *place, int number, uint64_t guid)
{
	char path[PATH_MAX], value[VALUE_LEN];
	int ret = guid_file(place, number, path);

	snprintf(value, sizeof(value), "0x%016" PRIx64, guid);
	return ret ? ret : write_value(path, value);
}

int mlx4_set(const char *root, const char *where, int number, const struct record *record)
{
	struct place place;
	int ret = find_place(&place, root, where);

	if (!ret)
		ret = map_pkeys(&place, number, record);
	return ret ? ret : write_guid(&place, number, record->guid);
}

int mlx4_clear(const char *root, const char *where, int number)
{
	struct place place;
	int ret = find_place(&place, root, where);

	if (!ret)
		ret = reset_pkeys(&place, number);
	return ret ? ret : write_guid(&place, number, NO_GUID);
}

/* ---- the one of this machine ---- */

static int list(const char *where, struct function *functions, size_t room)
{
	return mlx4_list("/sys", where, functions, room);
}

static int fits(const char *where, const struct record *record, char *reason, size_t len)
{
	return mlx4_fits("/sys", where, record, reason, len);
}

static int set(const char *where, int number, const struct record *record)
{
	return mlx4_set("/sys", where, number, record);
}

static int clear(const char *where, int number)
{
	return mlx4_clear("/sys", where, number);
}

const struct function_provider function_mlx4 = {"mlx4", list, fits, set, clear};
