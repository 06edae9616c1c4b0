// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * urxe fabric show --svg. A node's level is its distance from the nearest host. Where there are
 * switches without hosts, as in a fat tree, levels lie above each other: hosts at the bottom, side
 * by side below their switch, each switch above the middle of what it is connected to one level
 * down. Elsewhere (torus, hypercube, dragonfly) switches lie on a circle and hosts around it. One
 * thread.
 */
#include "tools/fabric_svg.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { HOST_PITCH = 22, GROUP_GAP = 14, LEVEL_PITCH = 130, SWITCH_PITCH = 76, MARGIN = 60 };

struct item {
	struct json_object *node;
	const char *guid;
	bool is_switch;
	int level;   /* -1: no host can be reached */
	int parent;  /* of a host: the switch that it is drawn at; -1: none */
	int hosts;   /* of a switch: how many are drawn at it */
	double wish; /* where it would like to be, from left to right */
	double x, y;
	double turn; /* of a host's name, in degrees */
};

static struct {
	struct item *items; /* by GUID once it is sorted */
	int num, room;
	double width, height;
} picture;

static const char *text(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_string(v) : "";
}

static int number(struct json_object *o, const char *key)
{
	struct json_object *v;

	return json_object_object_get_ex(o, key, &v) ? json_object_get_int(v) : 0;
}

int fabric_svg_add(struct json_object *node)
{
	struct item *more;

	if (picture.num == picture.room) {
		picture.room = picture.room ? 2 * picture.room : 64;
		more = realloc(picture.items, picture.room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		picture.items = more;
	}
	picture.items[picture.num++] =
		(struct item){.node = json_object_get(node),
			      .guid = text(node, "guid"),
			      .is_switch = !strcmp(text(node, "type"), "switch"),
			      .level = -1,
			      .parent = -1};
	return 0;
}

static int by_guid(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->guid, ((const struct item *)b)->guid);
}

/* The i-th cable of a node and the index of what is at its other end; NULL: there are no more. */
static struct json_object *cable(const struct item *item, size_t i, int *peer)
{
	struct json_object *cables, *port;
	struct item key = {0}, *found;

	if (!json_object_object_get_ex(item->node, "cables", &cables) ||
	    i >= json_object_array_length(cables))
		return NULL;
	port = json_object_array_get_idx(cables, i);
	key.guid = text(port, "peer_guid");
	found = bsearch(&key, picture.items, picture.num, sizeof(key), by_guid);
	*peer = found ? found - picture.items : -1;
	return port;
}

/* ---- levels ---- */

static int *queue_of_hosts(int *n)
{
	int *queue = malloc((picture.num + 1) * sizeof(*queue));

	*n = 0;
	for (int i = 0; queue && i < picture.num; i++) {
		if (picture.items[i].is_switch)
			continue;
		picture.items[i].level = 0;
		queue[(*n)++] = i;
	}
	return queue;
}

/* The highest level, or -ENOMEM. */
static int set_levels(void)
{
	int n, peer, highest = 0, *queue = queue_of_hosts(&n);

	if (!queue)
		return -ENOMEM;
	for (int at = 0; at < n; at++) {
		struct item *item = &picture.items[queue[at]], *other;

		for (size_t i = 0; cable(item, i, &peer); i++) {
			if (peer < 0)
				continue;
			other = &picture.items[peer];
			if (!item->is_switch && item->parent < 0 && other->is_switch) {
				item->parent = peer;
				other->hosts++;
			}
			if (other->level >= 0)
				continue;
			other->level = highest = item->level + 1;
			queue[n++] = peer;
		}
	}
	free(queue);
	return highest;
}

/* ---- layers ---- */

static int by_wish(const void *a, const void *b)
{
	const struct item *p = &picture.items[*(const int *)a],
			  *q = &picture.items[*(const int *)b];

	if (p->wish != q->wish)
		return p->wish < q->wish ? -1 : 1;
	return strcmp(p->guid, q->guid);
}

/* The middle of what it is connected to one level down. */
static double middle(const struct item *item)
{
	double sum = 0;
	int peer, n = 0;

	for (size_t i = 0; cable(item, i, &peer); i++) {
		if (peer < 0 || picture.items[peer].level != item->level - 1)
			continue;
		sum += picture.items[peer].x;
		n++;
	}
	return n ? sum / n : 0;
}

/* Hosts and the switches above them, from left to right. */
static void place_groups(const int *order, int n)
{
	double x = MARGIN;

	for (int i = 0; i < n; i++) {
		struct item *sw = &picture.items[order[i]];
		double room = sw->hosts * HOST_PITCH > SWITCH_PITCH ? sw->hosts * HOST_PITCH
								    : SWITCH_PITCH;
		double at = x + (room - (sw->hosts - 1) * HOST_PITCH) / 2;

		for (int h = 0; h < picture.num; h++) {
			if (picture.items[h].parent != order[i])
				continue;
			picture.items[h].x = at;
			at += HOST_PITCH;
		}
		sw->x = x + room / 2;
		x += room + GROUP_GAP;
	}
	picture.width = x + MARGIN;
}

static int place_layers(int highest)
{
	int *order = malloc((picture.num + 1) * sizeof(*order));
	int n, widest = 0;

	if (!order)
		return -ENOMEM;
	picture.width = 0;
	for (int level = 1; level <= highest; level++) {
		n = 0;
		for (int i = 0; i < picture.num; i++) {
			if (picture.items[i].level != level)
				continue;
			picture.items[i].wish = level > 1 ? middle(&picture.items[i]) : 0;
			order[n++] = i;
		}
		qsort(order, n, sizeof(*order), by_wish);
		widest = n > widest ? n : widest;
		if (level == 1)
			place_groups(order, n);
		if (picture.width < 2 * MARGIN + widest * SWITCH_PITCH)
			picture.width = 2 * MARGIN + widest * SWITCH_PITCH;
		for (int i = 0; level > 1 && i < n; i++)
			picture.items[order[i]].x =
				MARGIN + (picture.width - 2 * MARGIN) * (i + 0.5) / n;
	}
	free(order);
	picture.height = highest * LEVEL_PITCH + 2 * MARGIN + 60;
	for (int i = 0; i < picture.num; i++) {
		picture.items[i].turn = 60;
		picture.items[i].y =
			MARGIN + 20 +
			(highest - (picture.items[i].level > 0 ? picture.items[i].level : 0)) *
				LEVEL_PITCH;
	}
	return 0;
}

/* ---- a circle ---- */

static void place_circle(void)
{
	int switches = 0, most = 1, at = 0;
	double radius, centre;

	for (int i = 0; i < picture.num; i++) {
		switches += picture.items[i].is_switch;
		if (picture.items[i].hosts > most)
			most = picture.items[i].hosts;
	}
	radius = switches * (most * HOST_PITCH > SWITCH_PITCH ? most * HOST_PITCH : SWITCH_PITCH) /
		 (2 * M_PI);
	radius = radius > 120 ? radius : 120;
	centre = radius + LEVEL_PITCH + MARGIN;
	for (int i = 0; i < picture.num; i++) {
		struct item *sw = &picture.items[i];
		double angle = 2 * M_PI * at / switches, step = HOST_PITCH / (radius + 60);
		int drawn = 0;

		if (!sw->is_switch)
			continue;
		at++;
		sw->x = centre + radius * sin(angle);
		sw->y = centre - radius * cos(angle);
		for (int h = 0; h < picture.num; h++) {
			double a = angle + (drawn - (sw->hosts - 1) / 2.0) * step;

			if (picture.items[h].parent != i)
				continue;
			picture.items[h].x = centre + (radius + 70) * sin(a);
			picture.items[h].y = centre - (radius + 70) * cos(a);
			picture.items[h].turn = a * 180 / M_PI - 90;
			drawn++;
		}
	}
	picture.width = picture.height = 2 * centre;
}

/* ---- drawing ---- */

static void put_text(const char *s, FILE *out)
{
	for (; *s; s++) {
		switch (*s) {
		case '&': fputs("&amp;", out); break;
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		default: putc(*s, out);
		}
	}
}

static const char *class_of(const char *state)
{
	if (!strcmp(state, "Active"))
		return "up";
	return !strcmp(state, "Init") || !strcmp(state, "Armed") ? "init" : "down";
}

/* From the end that comes first. */
static void draw_cables(const struct item *item, FILE *out)
{
	struct json_object *port;
	int peer, me = item - picture.items;

	for (size_t i = 0; (port = cable(item, i, &peer)); i++) {
		const struct item *other = &picture.items[peer < 0 ? 0 : peer];

		if (peer < me || (peer == me && number(port, "port") > number(port, "peer_port")))
			continue;
		fprintf(out, "<line class=\"%s\" x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\">",
			class_of(text(port, "state")), item->x, item->y, other->x, other->y);
		fputs("<title>", out);
		put_text(text(item->node, "node"), out);
		fprintf(out, "[%d] – ", number(port, "port"));
		put_text(text(other->node, "node"), out);
		fprintf(out, "[%d] %dx%s %s</title></line>\n", number(port, "peer_port"),
			number(port, "width"), text(port, "speed"), text(port, "state"));
	}
}

static int lid_of(const struct item *item)
{
	struct json_object *port;
	int peer, lid = number(item->node, "lid");

	for (size_t i = 0; !item->is_switch && !lid && (port = cable(item, i, &peer)); i++)
		lid = number(port, "lid");
	return lid;
}

/* Its name begins beside it and points away; on the left of a circle it ends there, so as not to be
 * upside down. */
static void draw_host(const struct item *item, FILE *out)
{
	bool left = item->turn > 90;

	fprintf(out,
		"<circle cx=\"%.0f\" cy=\"%.0f\" r=\"6\"/>"
		"<text transform=\"translate(%.0f %.0f) rotate(%.0f) translate(%d 3)\"%s>",
		item->x, item->y, item->x, item->y, left ? item->turn - 180 : item->turn,
		left ? -10 : 10, left ? " text-anchor=\"end\"" : "");
}

static void draw_node(const struct item *item, FILE *out)
{
	const char *name = text(item->node, "node");

	fputs("<g><title>", out);
	put_text(name, out);
	fprintf(out, ", %s %s, LID %d</title>", text(item->node, "type"), item->guid, lid_of(item));
	if (item->is_switch)
		fprintf(out,
			"<rect x=\"%.0f\" y=\"%.0f\" width=\"68\" height=\"24\" rx=\"4\"/>"
			"<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">",
			item->x - 34, item->y - 12, item->x, item->y + 4);
	else
		draw_host(item, out);
	put_text(name, out);
	fputs("</text></g>\n", out);
}

static void draw(FILE *out)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"width=\"%.0f\" height=\"%.0f\">\n"
		"<style>text{font:10px sans-serif;fill:#222}"
		"rect{fill:#dbe7f5;stroke:#35618f}circle{fill:#f4e3c1;stroke:#8a6420}"
		"line{stroke-width:1.2}.up{stroke:#6a8f5a}.init{stroke:#d9a400}"
		".down{stroke:#c33;stroke-dasharray:4 3}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" style=\"fill:#fff;stroke:none\"/>\n"
		"<text x=\"12\" y=\"20\">%d nodes; links: "
		"<tspan style=\"fill:#6a8f5a\">Active</tspan>, "
		"<tspan style=\"fill:#d9a400\">not managed</tspan>, "
		"<tspan style=\"fill:#c33\">down</tspan></text>\n",
		picture.width, picture.height, picture.width, picture.height, picture.num);
	for (int i = 0; i < picture.num; i++)
		draw_cables(&picture.items[i], out);
	for (int i = 0; i < picture.num; i++)
		draw_node(&picture.items[i], out);
	fputs("</svg>\n", out);
}

int fabric_svg_write(FILE *out)
{
	int highest, ret = 0;

	qsort(picture.items, picture.num, sizeof(*picture.items), by_guid);
	highest = set_levels();
	if (highest > 1)
		ret = place_layers(highest);
	else if (highest >= 0)
		place_circle();
	else
		ret = highest;
	if (!ret)
		draw(out);
	for (int i = 0; i < picture.num; i++)
		json_object_put(picture.items[i].node);
	free(picture.items);
	memset(&picture, 0, sizeof(picture));
	return ret;
}
