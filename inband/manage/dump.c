/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* See dump.h. Peers may come later in the file than what names them: they are found when all has
 * been read. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "inband/manage/dump.h"

#define HEAD	     "inband-dump 1"
#define LINE	     256
#define MOST_DEVICES 1000000

static const char *const type_names[] = {[NMP_NIC] = "nic", [NMP_NRC] = "nrc"};

static void write_port(const struct model *m, const struct device *d, unsigned p, FILE *file)
{
	const struct model_port *port = &d->port[p];
	const struct target *peer;

	if (port->peer != MODEL_NONE) {
		peer = &m->devices[port->peer]->target;
		fprintf(file, "port %u %s%s %" PRIu64 " %u\n", p, port->lost ? "lost " : "",
			type_names[peer->type], peer->id, port->peer_port);
	} else if (port->state == NEIGHBOUR_UP) {
		fprintf(file, "port %u nameless\n", p);
	} else if (port->state == NEIGHBOUR_LIGHT) {
		fprintf(file, "port %u light\n", p);
	}
}

int dump_write(const struct model *m, FILE *file)
{
	fputs(HEAD "\n", file);
	for (uint32_t i = 0; i < m->count; i++) {
		const struct device *d = m->devices[i];

		fprintf(file, "device %s %" PRIu64 " %u\n", type_names[d->target.type],
			d->target.id, d->nports);
		if (d->state == DEVICE_SILENT)
			fputs("silent\n", file);
		for (unsigned p = 0; p < d->nports; p++)
			write_port(m, d, p, file);
	}
	fputs("end\n", file);
	return ferror(file) ? -EIO : 0;
}

/* What a port leads to, until that is known. */
struct lead {
	uint32_t device;
	unsigned port;
	uint64_t id;
	uint8_t type;
};

struct reader {
	struct model *model;
	struct device *device; /* that lines are about */
	struct lead *leads;
	uint32_t count, size;
	unsigned line;
	bool ended;
	const char *wrong;
};

static int type_of(const char *name)
{
	return !strcmp(name, "nrc") ? NMP_NRC : !strcmp(name, "nic") ? NMP_NIC : -1;
}

static int read_device(struct reader *r, const char *line)
{
	char name[8];
	uint64_t id;
	unsigned ports;
	int end = 0, type;

	if (sscanf(line, "device %7s %" SCNu64 " %u%n", name, &id, &ports, &end) != 3 ||
	    line[end] || (type = type_of(name)) < 0 || !ports || ports > FABRIC_PORTS) {
		r->wrong = "device TYPE ID PORTS";
		return -EINVAL;
	}
	if (id == FABRIC_NO_ID || model_find(r->model, type, id) ||
	    r->model->count == MOST_DEVICES) {
		r->wrong = "an ID that is there already, or more than can be";
		return -EINVAL;
	}
	r->device = model_add(r->model, type, id, ports);
	if (!r->device)
		return -ENOMEM;
	r->device->state = type == NMP_NRC || !r->device->number ? DEVICE_KNOWN : DEVICE_TOLD;
	return 0;
}

static int add_lead(struct reader *r, unsigned port, int type, uint64_t id)
{
	if (r->count == r->size) {
		uint32_t size = r->size ? 2 * r->size : 1024;
		struct lead *more = realloc(r->leads, size * sizeof(*more));

		if (!more)
			return -ENOMEM;
		r->leads = more;
		r->size = size;
	}
	r->leads[r->count++] = (struct lead){r->device->number, port, id, type};
	return 0;
}

static int read_port(struct reader *r, const char *line)
{
	struct model_port *port;
	unsigned p, peer_port;
	char word[16];
	uint64_t id;
	int end = 0, type;

	r->wrong = "port PORT [lost] TYPE ID PORT, nameless or light";
	if (!r->device || sscanf(line, "port %u %15s%n", &p, word, &end) != 2 ||
	    p >= r->device->nports)
		return -EINVAL;
	port = &r->device->port[p];
	if (port->state != NEIGHBOUR_NONE)
		return -EINVAL;
	line += end;
	port->state = !strcmp(word, "light") ? NEIGHBOUR_LIGHT : NEIGHBOUR_UP;
	if (!strcmp(word, "nameless") || !strcmp(word, "light"))
		return *line ? -EINVAL : 0;
	if (!strcmp(word, "lost")) {
		port->lost = true;
		if (sscanf(line, " %15s%n", word, &end) != 1)
			return -EINVAL;
		line += end;
	}
	type = type_of(word);
	if (type < 0 || sscanf(line, " %" SCNu64 " %u%n", &id, &peer_port, &end) != 2 ||
	    line[end] || peer_port >= FABRIC_PORTS)
		return -EINVAL;
	port->peer_port = peer_port;
	return add_lead(r, p, type, id);
}

static int read_line(struct reader *r, const char *line)
{
	if (!*line || *line == '#')
		return 0;
	r->wrong = "device, silent, port or end";
	if (r->ended)
		return -EINVAL;
	if (!strncmp(line, "device ", 7))
		return read_device(r, line);
	if (!strncmp(line, "port ", 5))
		return read_port(r, line);
	if (!strcmp(line, "silent") && r->device) {
		r->device->state = DEVICE_SILENT;
		return 0;
	}
	r->ended = !strcmp(line, "end");
	return r->ended ? 0 : -EINVAL;
}

static int read_lines(struct reader *r, FILE *file)
{
	char line[LINE];
	int ret = 0;

	while (!ret && fgets(line, sizeof(line), file)) {
		size_t n = strlen(line);

		r->line++;
		r->wrong = "the line is too long, has a zero in it, or is cut off";
		if (!n || line[n - 1] != '\n')
			return -EINVAL;
		line[n - 1] = 0;
		if (r->line == 1) {
			r->wrong = "the first line is to be " HEAD;
			ret = strcmp(line, HEAD) ? -EINVAL : 0;
		} else {
			ret = read_line(r, line);
		}
	}
	if (!ret && (!r->ended || !r->model->count)) {
		r->wrong = "the last line, end, is missing";
		ret = -EINVAL;
	}
	return ret;
}

static int join(struct reader *r)
{
	struct model *m = r->model;

	for (uint32_t i = 0; i < r->count; i++) {
		const struct lead *lead = &r->leads[i];
		struct model_port *port = &m->devices[lead->device]->port[lead->port];
		const struct device *peer = model_find(m, lead->type, lead->id);

		if (!peer || port->peer_port >= peer->nports) {
			r->line = 0;
			r->wrong = "a port leads to a device, or a port of one, that is not there";
			return -EINVAL;
		}
		port->peer = peer->number;
	}
	return 0;
}

/* Ways by the links, from the first device. */
static int find_ways(struct model *m)
{
	bool *changed = calloc(m->count, sizeof(*changed));
	int ret = changed ? model_reroute(m, changed) : -ENOMEM;

	free(changed);
	model_count_links(m);
	return ret;
}

int dump_read(FILE *file, struct model **model, char *error, size_t length)
{
	struct reader r = {0};
	int ret = model_create(&r.model);

	if (!ret)
		ret = read_lines(&r, file);
	if (!ret)
		ret = join(&r);
	if (!ret)
		ret = find_ways(r.model);
	free(r.leads);
	if (!ret) {
		*model = r.model;
		return 0;
	}
	if (ret == -EINVAL && r.line)
		snprintf(error, length, "line %u: %s", r.line, r.wrong);
	else
		snprintf(error, length, "%s", ret == -EINVAL ? r.wrong : strerror(-ret));
	model_destroy(r.model);
	return ret;
}

static void add_cables(const struct model *m, const uint32_t *chip, struct machine *plan,
		       const struct machine *like)
{
	for (uint32_t i = 0; i < m->count; i++)
		for (unsigned p = 0; p < m->devices[i]->nports; p++) {
			const struct model_port *port = &m->devices[i]->port[p];
			const struct target *t = &m->devices[i]->target;
			uint32_t old;

			if (port->peer == MODEL_NONE || port->lost ||
			    p >= plan->chips[chip[i]].ports ||
			    port->peer_port >= plan->chips[chip[port->peer]].ports)
				continue;
			old = like ? machine_find(like, t->type, t->id) : MACHINE_NONE;
			machine_cable(plan, chip[i], p, chip[port->peer], port->peer_port,
				      old == MACHINE_NONE || p >= like->chips[old].ports ||
					      like->ports[like->chips[old].first_port + p].optical);
		}
}

static uint32_t add_chip(struct machine *plan, const struct device *d, const struct machine *like)
{
	struct machine_chip chip = {.type = d->target.type,
				    .layer = d->target.type == NMP_NIC ? LAYER_NODE : LAYER_OTHER,
				    .row = ROW_NONE,
				    .ports = d->nports < MACHINE_NRC_PORTS ? d->nports
									   : MACHINE_NRC_PORTS,
				    .id = d->target.id};
	uint32_t old = like ? machine_find(like, chip.type, chip.id) : MACHINE_NONE;

	if (old != MACHINE_NONE)
		chip = like->chips[old];
	return machine_add(plan, &chip);
}

int dump_plan(const struct model *m, const struct machine *like, struct machine **made)
{
	uint32_t *chip = malloc((m->count + 1) * sizeof(*chip));
	struct machine *plan;
	int ret;

	if (!chip || machine_begin("baseline", m->count + 1, &plan)) {
		free(chip);
		return -ENOMEM;
	}
	for (unsigned type = 2; type-- > 0;)
		for (uint32_t i = 0; i < m->count; i++)
			if (m->devices[i]->target.type == type &&
			    m->devices[i]->target.id < NMP_NO_ID)
				chip[i] = add_chip(plan, m->devices[i], like);
	ret = plan->chip_count == m->count ? 0 : -ENOTSUP;
	if (!ret) {
		add_cables(m, chip, plan, like);
		ret = machine_end(plan);
	}
	free(chip);
	if (ret)
		machine_destroy(plan);
	else
		*made = plan;
	return ret;
}
