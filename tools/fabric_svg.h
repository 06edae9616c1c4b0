/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A picture of a fabric from the lines of fabricd's answer to "show". One thread, one picture.
 */
#ifndef URXE_TOOLS_FABRIC_SVG_H
#define URXE_TOOLS_FABRIC_SVG_H

#include <stdio.h>

#include <json-c/json.h>

/* A node is part of the picture; it is kept. -ENOMEM. */
int fabric_svg_add(struct json_object *node);
/* Draws all nodes, and forgets them. -ENOMEM. */
int fabric_svg_write(FILE *out);

#endif
