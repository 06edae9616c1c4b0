/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A command that a program wrote to an rdma_cm file. Private to ucma*.c. */
#ifndef URXE_CM_UCMA_COMMAND_H
#define URXE_CM_UCMA_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#include "cm/id.h"

#define URXE_COMMAND_MAX 512 /* above the longest one */

struct urxe_command;

/* What there is of each: either fn carries it out, or on_id, for its id, under the engine lock. */
struct urxe_command_kind {
	/* body: its structure, in the kernel's current form. */
	int (*fn)(const struct urxe_command *cmd, void *body);
	int (*on_id)(struct urxe_id *id, const struct urxe_command *cmd, void *body);
	bool bound;		   /* on_id: the id must have a device, or -EINVAL */
	bool (*check)(void *body); /* before an id is looked up; false: -EINVAL */
	uint16_t size, room;	   /* of its structure; the least for the answer */
	uint16_t oldest;	   /* the size of the structure's first form, where it has grown */
	bool about_id;		   /* an id of the kernel's takes it as it is, but for the handle */
	uint16_t id_at;		   /* where that is */
};

/* Read from the program's memory once, so that it cannot change between checks and use. */
struct urxe_command {
	struct urxe_ucma *file;
	int fd;	      /* that it was written to */
	uint32_t cmd; /* RDMA_USER_CM_CMD_… */
	const struct urxe_command_kind *kind;
	uint64_t from; /* address of what follows the header */
	uint16_t in;   /* its length, as the header says */
	uint16_t out;  /* room for the answer */
	size_t have;   /* of bytes; a program may have written less than the command has */
	uint8_t bytes[URXE_COMMAND_MAX];
};

/* The command's structure. As in the kernel, one of fixed size is read whole even where the
 * header says it is shorter. -EFAULT. */
int urxe_command_take(const struct urxe_command *cmd, void *to, size_t size);

/* ucma_query.c */
int urxe_command_query_route(struct urxe_id *id, const struct urxe_command *cmd, void *body);
int urxe_command_query(struct urxe_id *id, const struct urxe_command *cmd, void *body);
bool urxe_command_check_qp_state(void *body);
int urxe_command_init_qp_attr(struct urxe_id *id, const struct urxe_command *cmd, void *body);
/* ucma_option.c */
int urxe_command_set_option(const struct urxe_command *cmd, void *body);
/* ucma_address.c */
int urxe_command_bind_ip(const struct urxe_command *cmd, void *body);
int urxe_command_bind(const struct urxe_command *cmd, void *body);
int urxe_command_resolve_ip(const struct urxe_command *cmd, void *body);
int urxe_command_resolve_addr(const struct urxe_command *cmd, void *body);
int urxe_command_join_ip_mcast(const struct urxe_command *cmd, void *body);
int urxe_command_join_mcast(const struct urxe_command *cmd, void *body);
int urxe_command_leave_mcast(const struct urxe_command *cmd, void *body);
/* Binds an id that is not bound, as LISTEN does where the program has not. */
int urxe_command_bind_any(const struct urxe_command *cmd, uint32_t handle);
/* ucma_file.c: opened by the parent of a fork; and: of a file that may have come without it. */
bool urxe_ucma_is_stale(const struct urxe_ucma *file);
void urxe_ucma_hold_manager(struct urxe_ucma *file);

/* As urxe_id_find(), for commands that need an id with a device: -EINVAL without. */
int urxe_id_find_bound(struct urxe_ucma *file, uint32_t handle, struct urxe_id **id);

#endif
