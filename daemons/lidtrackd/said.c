// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * See said.h. A guest is in the list while there is something to say of it, which few have. The
 * caller's thread.
 */
#include "daemons/lidtrackd/said.h"

#include <stdlib.h>
#include <string.h>

#include "migrate/record.h"

struct said {
	struct said *next;
	char guest[RECORD_NAME_LEN];
	char *text;
};

static void drop(struct said **at)
{
	struct said *s = *at;

	*at = s->next;
	free(s->text);
	free(s);
}

static struct said **find(struct said **list, const char *guest)
{
	while (*list && strcmp((*list)->guest, guest) != 0)
		list = &(*list)->next;
	return list;
}

bool said_new(struct said **list, const char *guest, const char *text)
{
	struct said **at = find(list, guest), *s;

	if (*at && !strcmp((*at)->text, text))
		return false;
	if (*at)
		drop(at);
	s = calloc(1, sizeof(*s));
	if (s)
		s->text = strdup(text);
	if (!s || !s->text) {
		free(s);
		return true;
	}
	strncpy(s->guest, guest, sizeof(s->guest) - 1);
	s->next = *list;
	*list = s;
	return true;
}

void said_over(struct said **list, const char *guest)
{
	struct said **at;

	while (guest ? *(at = find(list, guest)) : *(at = list))
		drop(at);
}
