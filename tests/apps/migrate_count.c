/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Preloaded into opensm: counts what the SA is asked for, by umad_recv(), in the file that
 * MIGRATE_COUNT names: a line "paths other", of PathRecord requests and of all others, written anew
 * at each one.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

#include <infiniband/umad.h>

static unsigned long paths, other;

static void count(const uint8_t *mad)
{
	static int fd = -2;
	char line[64];
	int len;

	if (mad[1] != 3 || mad[3] & 0x80)
		return;
	*(mad[16] == 0 && mad[17] == 0x35 ? &paths : &other) += 1;
	if (fd == -2)
		fd = getenv("MIGRATE_COUNT")
			     ? open(getenv("MIGRATE_COUNT"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
			     : -1;
	len = snprintf(line, sizeof(line), "%-20lu %-20lu\n", paths, other);
	if (fd >= 0 && pwrite(fd, line, len, 0) != len)
		_exit(3);
}

__attribute__((visibility("default"))) int umad_recv(int portid, void *umad, int *length,
						     int timeout_ms)
{
	static int (*next)(int, void *, int *, int);
	int ret;

	if (!next)
		next = (int (*)(int, void *, int *, int))dlsym(RTLD_NEXT, "umad_recv");
	ret = next(portid, umad, length, timeout_ms);
	if (ret >= 0 && !umad_status(umad) && *length >= 24)
		count(umad_get_mad(umad));
	return ret;
}
