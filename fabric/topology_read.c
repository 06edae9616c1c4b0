// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Reads a fabric's description. Lines, of which all but the first two belong to the node that they
 * stand in front of or below:
 *
 *	Switch	24 "S-005442ba00003080"		# "ISR9024 Voltaire" base port 0 lid 6 lmc 0
 *	Ca	2 "H-0008f10403961354"		# "node-17 HCA-1"		(also Hca, Rt, Router)
 *	[22]	"H-0008f10403961354"[1](8f10403961355)	# "node-17 HCA-1" lid 4 4xSDR
 *	[1](8f10403961355)	"S-005442ba00003080"[22]	# lid 4 lmc 0 "ISR9024 Voltaire" lid 6 4xSDR
 *	vendid=0x8f1, devid=…, sysimgguid=…, switchguid=0x5442ba00003080(5442ba00003080), caguid=…
 *
 * and lines of our own: before a Ca, that it is a virtual function of the switch at its only port,
 * which has no GUID yet if none is given; before a Switch, its LinearFDBCap.
 *
 *	function=2
 *	linearcap=4096
 *
 * A cable may be named at one end or at both. What is behind '#' tells descriptions, widths and
 * speeds, and may be missing. Lines of no such form (headings, messages of the program that printed
 * the file) are counted and passed over; a line that begins as one of these and goes wrong is an
 * error.
 *
 * Two passes over the text: nodes, then cables. One thread at a time.
 */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/topology.h"

struct reader {
	struct topology *t;
	char *error;
	unsigned line;
	uint32_t *table; /* node indices by hash of their ids */
	uint32_t mask;
	/* what stood in front of the next node */
	uint64_t guid, port0_guid, system_guid;
	uint32_t vendor, device;
	unsigned long function, linear_cap;
};

static __attribute__((format(printf, 2, 3))) int wrong(struct reader *r, const char *fmt, ...)
{
	va_list ap;
	int n = snprintf(r->error, TOPOLOGY_ERROR_LEN, "line %u: ", r->line);

	va_start(ap, fmt);
	vsnprintf(r->error + n, TOPOLOGY_ERROR_LEN - n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

static const char *blanks(const char *s)
{
	return s + strspn(s, " \t\r");
}

/* "text" at s; behind it, or NULL. */
static const char *quoted(const char *s, char *to, size_t len)
{
	const char *end;

	if (*s != '"')
		return NULL;
	end = strchr(s + 1, '"');
	if (!end || (size_t)(end - s) > len)
		return NULL;
	memcpy(to, s + 1, end - s - 1);
	to[end - s - 1] = '\0';
	return end + 1;
}

static uint32_t hash_of(const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return h ^ h >> 15;
}

static uint32_t find(const struct reader *r, const char *id)
{
	uint32_t at = hash_of(id) & r->mask;

	for (; r->table[at] != FABRIC_NONE; at = (at + 1) & r->mask)
		if (!strcmp(r->t->nodes[r->table[at]].id, id))
			return r->table[at];
	return FABRIC_NONE;
}

static void enter(struct reader *r, uint32_t node)
{
	uint32_t at = hash_of(r->t->nodes[node].id) & r->mask;

	while (r->table[at] != FABRIC_NONE)
		at = (at + 1) & r->mask;
	r->table[at] = node;
}

static bool begins(const char *s, const char *word, const char **behind)
{
	size_t n = strlen(word);

	if (strncasecmp(s, word, n))
		return false;
	*behind = s + n;
	return true;
}

/* Type of the node that a line declares, and behind the word; 0 for none. */
static int node_word(const char *s, const char **behind)
{
	static const struct {
		const char *word;
		int type;
	} words[] = {{"Switch", NODE_SWITCH},
		     {"Hca", NODE_CA},
		     {"Ca", NODE_CA},
		     {"Router", NODE_ROUTER},
		     {"Rt", NODE_ROUTER}};

	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (begins(s, words[i].word, behind) && (**behind == ' ' || **behind == '\t') &&
		    isdigit((unsigned char)*blanks(*behind)))
			return words[i].type;
	return 0;
}

/* "vendid=0x2c9" and its kin. */
static bool attribute(struct reader *r, const char *s)
{
	const char *v;
	char *end;

	if (begins(s, "vendid=", &v)) {
		r->vendor = strtoul(v, NULL, 0) & 0xffffff;
	} else if (begins(s, "devid=", &v)) {
		r->device = strtoul(v, NULL, 0) & 0xffff;
	} else if (begins(s, "sysimgguid=", &v)) {
		r->system_guid = strtoull(v, NULL, 16);
	} else if (begins(s, "switchguid=", &v) || begins(s, "caguid=", &v) ||
		   begins(s, "rtguid=", &v) || begins(s, "hcaguid=", &v)) {
		r->guid = strtoull(v, &end, 16);
		if (*end == '(')
			r->port0_guid = strtoull(end + 1, NULL, 16);
	} else if (begins(s, "function=", &v)) {
		r->function = strtoul(v, NULL, 10);
	} else if (begins(s, "linearcap=", &v)) {
		r->linear_cap = strtoul(v, NULL, 10) & ~63ul;
	} else {
		return false;
	}
	return true;
}

/* What stood in front of a node is its own. */
static void take_attributes(struct reader *r, struct topology_node *n)
{
	n->guid = r->guid;
	n->port0_guid = r->port0_guid;
	n->system_guid = r->system_guid;
	n->vendor = r->vendor;
	n->device = r->device;
	n->function = r->function;
	n->no_guid = r->function && !r->guid;
	n->linear_cap = r->linear_cap && r->linear_cap < FABRIC_LFT_LEN ? r->linear_cap : 0;
	r->guid = r->port0_guid = r->system_guid = r->vendor = r->device = r->function =
		r->linear_cap = 0;
}

static int declare(struct reader *r, int type, const char *s)
{
	char id[TOPOLOGY_ID_LEN], desc[FABRIC_DESC_LEN + 1], *end;
	unsigned long ports = strtoul(s, &end, 10);
	struct topology_node *n;

	if (!ports || ports > FABRIC_MAX_PORTS)
		return wrong(r, "a node has 1 to %d ports, not %lu", FABRIC_MAX_PORTS, ports);
	s = quoted(blanks(end), id, sizeof(id));
	if (!s || !*id)
		return wrong(r, "the node's name is missing: \"…\" behind the number of its ports");
	strcpy(desc, id);
	s = strchr(s, '#');
	if (s)
		quoted(blanks(s + 1), desc, sizeof(desc));
	if (r->function && (type != NODE_CA || ports != 1 || r->function > FABRIC_MAX_PORTS))
		return wrong(r, "a virtual function is a Ca of one port with a number up to %d",
			     FABRIC_MAX_PORTS);
	n = topology_add(r->t, type, ports, id, desc);
	if (!n)
		return -ENOMEM;
	n->enhanced_port0 = s && strstr(s, "enhanced port 0");
	/* ibnetdiscover's names are made of GUIDs. */
	if (!r->guid && strlen(id) == 18 && id[1] == '-' &&
	    strspn(id + 2, "0123456789abcdef") == 16)
		r->guid = strtoull(id + 2, NULL, 16);
	take_attributes(r, n);
	return 0;
}

/* "4xEDR" at the end of what is behind '#'. */
static void width_and_speed(const char *s, struct topology_port *p)
{
	const char *word = s, *next;
	unsigned long width;
	char *x;

	for (next = s; (next = strpbrk(next, " \t")); word = next = blanks(next))
		if (!*blanks(next))
			break;
	width = strtoul(word, &x, 10);
	if (x == word || *x != 'x' || !width || width > 12)
		return;
	for (int i = 0; i < FABRIC_NUM_SPEEDS; i++) {
		size_t n = strlen(topology_speeds[i]);

		if (strncmp(x + 1, topology_speeds[i], n) ||
		    (x[1 + n] && !isspace((unsigned char)x[1 + n])))
			continue;
		p->width = width;
		p->speed = i;
	}
}

/* "[7]" or "[7](guid)" at s. */
static const char *port_number(const char *s, unsigned long *num, uint64_t *guid)
{
	char *end;

	if (*s != '[')
		return NULL;
	*num = strtoul(s + 1, &end, 10);
	if (end == s + 1 || *end != ']')
		return NULL;
	s = end + 1;
	if (begins(s, "(ext ", &s)) {
		s = strchr(s, ')');
		return s ? s + 1 : NULL;
	}
	if (*s == '(') {
		*guid = strtoull(s + 1, &end, 16);
		if (*end != ')')
			return NULL;
		s = end + 1;
	}
	return s;
}

static int join(struct reader *r, uint32_t a, unsigned a_port, uint32_t b, unsigned b_port)
{
	struct topology *t = r->t;
	const struct topology_port *p = &t->nodes[a].ports[a_port], *q = &t->nodes[b].ports[b_port];

	if (a == b && a_port == b_port)
		return wrong(r, "port %u cannot be connected to itself", a_port);
	if ((p->peer != FABRIC_NONE && (p->peer != b || p->peer_port != b_port)) ||
	    (q->peer != FABRIC_NONE && (q->peer != a || q->peer_port != a_port)))
		return wrong(r,
			     "port %u of \"%s\" and port %u of \"%s\" are not both free: one "
			     "port has one cable",
			     a_port, t->nodes[a].id, b_port, t->nodes[b].id);
	topology_connect(t, a, a_port, b, b_port);
	return 0;
}

static int cable(struct reader *r, uint32_t node, const char *s)
{
	struct topology_port *p, *q;
	char id[TOPOLOGY_ID_LEN];
	unsigned long num, peer_num = 0;
	uint64_t guid = 0, peer_guid = 0;
	uint32_t peer;
	int ret;

	s = port_number(s, &num, &guid);
	if (!s)
		return wrong(r, "\"[number]\" of a port is not complete");
	if (!num || num > r->t->nodes[node].num_ports)
		return wrong(r, "\"%s\" has no port %lu", r->t->nodes[node].id, num);
	s = quoted(blanks(s), id, sizeof(id));
	if (!s)
		return wrong(r, "the name of the node at the other end is missing");
	s = port_number(blanks(s), &peer_num, &peer_guid);
	if (!s)
		return wrong(r, "the port at the other end is missing: \"%s\"[number]", id);
	peer = find(r, id);
	if (peer == FABRIC_NONE)
		return wrong(r, "there is no node \"%s\" in this file", id);
	if (!peer_num || peer_num > r->t->nodes[peer].num_ports)
		return wrong(r, "\"%s\" has no port %lu", id, peer_num);
	ret = join(r, node, num, peer, peer_num);
	if (ret)
		return ret;
	p = &r->t->nodes[node].ports[num];
	if (guid)
		p->guid = guid;
	q = &r->t->nodes[peer].ports[peer_num];
	if (peer_guid)
		q->guid = peer_guid;
	s = strchr(s, '#');
	if (s)
		width_and_speed(blanks(s + 1), p);
	if (!q->width) {
		q->width = p->width;
		q->speed = p->speed;
	}
	return 0;
}

/* What is behind one would not be read. */
static int check_no_nul(struct reader *r, const char *text, size_t len)
{
	const char *nul = memchr(text, '\0', len);

	if (!nul)
		return 0;
	r->line = 1;
	for (const char *s = text; (s = memchr(s, '\n', nul - s)); s++)
		r->line++;
	return wrong(r, "a NUL byte stands in it: it is no text");
}

/* One line of the first pass. */
static int first(struct reader *r, const char *s)
{
	const char *behind;
	int type = node_word(s, &behind);

	if (type)
		return declare(r, type, blanks(behind));
	if (*s && *s != '#' && *s != '[' && !attribute(r, s) && !r->t->ignored++)
		r->t->first_ignored = r->line;
	return 0;
}

static int make_table(struct reader *r)
{
	uint32_t room = 16;

	while (room < 2 * r->t->num_nodes)
		room *= 2;
	r->table = malloc(room * sizeof(*r->table));
	if (!r->table)
		return -ENOMEM;
	memset(r->table, 0xff, room * sizeof(*r->table));
	r->mask = room - 1;
	for (uint32_t i = 0; i < r->t->num_nodes; i++) {
		if (find(r, r->t->nodes[i].id) != FABRIC_NONE) {
			snprintf(r->error, TOPOLOGY_ERROR_LEN, "there are two nodes \"%s\"",
				 r->t->nodes[i].id);
			return -EINVAL;
		}
		enter(r, i);
	}
	return 0;
}

static int pass(struct reader *r, char *text, bool cables)
{
	uint32_t node = FABRIC_NONE;
	const char *behind;
	char *line, *next;
	int ret = 0;

	r->line = 0;
	for (line = text; line && !ret; line = next) {
		const char *s;

		next = strchr(line, '\n');
		if (next)
			*next = '\0';
		r->line++;
		s = blanks(line);
		if (!cables)
			ret = first(r, s);
		else if (node_word(s, &behind))
			node++;
		else if (*s == '[' && node == FABRIC_NONE)
			ret = wrong(r, "a port stands before the first node");
		else if (*s == '[')
			ret = cable(r, node, s);
		if (next)
			*next++ = '\n';
	}
	return ret;
}

/* SubnetGet finds a node by its GUID: no two may have the same. */
static int check_guids(struct reader *r)
{
	for (uint32_t i = 0; i < r->t->num_nodes; i++)
		if (!r->t->nodes[i].no_guid)
			snprintf(r->t->nodes[i].id, TOPOLOGY_ID_LEN, "%016llx",
				 (unsigned long long)r->t->nodes[i].guid);
	free(r->table);
	r->table = NULL;
	return make_table(r);
}

int topology_read(struct topology *t, const char *text, size_t len, char error[TOPOLOGY_ERROR_LEN])
{
	struct reader r = {.t = t, .error = error};
	char *copy = malloc(len + 1);
	int ret = -ENOMEM;

	memset(t, 0, sizeof(*t));
	snprintf(error, TOPOLOGY_ERROR_LEN, "out of memory");
	if (copy) {
		memcpy(copy, text, len);
		copy[len] = '\0';
		ret = check_no_nul(&r, text, len);
	}
	if (!ret)
		ret = pass(&r, copy, false);
	if (!ret && !t->num_nodes) {
		snprintf(error, TOPOLOGY_ERROR_LEN,
			 "there is no node in it; a line like: Switch 8 \"S1\"");
		ret = -EINVAL;
	}
	if (!ret)
		ret = make_table(&r);
	if (!ret)
		ret = pass(&r, copy, true);
	if (!ret) {
		topology_finish(t);
		ret = check_guids(&r);
	}
	free(r.table);
	free(copy);
	if (ret)
		topology_free(t);
	return ret;
}
