/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Which way a branch mostly goes. */
#ifndef VIPL_BRANCH_H
#define VIPL_BRANCH_H

#define vipl_likely(x)	 __builtin_expect(!!(x), 1)
#define vipl_unlikely(x) __builtin_expect(!!(x), 0)

/* On the way of data: the compiler is to see its constant arguments. */
#define vipl_inline static inline __attribute__((always_inline))

#endif
