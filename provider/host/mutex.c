/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include "host/mutex.h"

/* The linker's names for the two ends of the section. */
extern pthread_mutex_t *const __start_urxe_mutexes[];
extern pthread_mutex_t *const __stop_urxe_mutexes[];

void urxe_mutexes_forked(void)
{
	for (pthread_mutex_t *const *m = __start_urxe_mutexes; m < __stop_urxe_mutexes; m++)
		pthread_mutex_init(*m, NULL);
}
