// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requests to other agents: a connection for each, since moves are rare and a kept one can be dead.
 * Any thread but the loop's: all of it waits.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemons/lidtrackd/lidtrackd.h"

static int ask(struct lidtrackd *d, struct link *link, const char *host, enum message_verb verb,
	       const struct record *record, const char *to)
{
	const struct peer *peer = peer_of(d, host);
	bool self = !strcmp(host, d->config.host);
	struct request request = {.verb = verb};
	char line[MESSAGE_LEN];
	size_t len;
	int ret;

	if (!peer && !self)
		return -EHOSTUNREACH;
	snprintf(request.from, sizeof(request.from), "%s", d->config.host);
	snprintf(request.to, sizeof(request.to), "%s", to ? to : host);
	request.record = *record;
	len = request_format(&request, line);
	ret = link_connect(link, &d->identity, host, self ? d->config.listen : peer->address);
	if (ret)
		return ret;
	ret = link_send(link, line, len);
	if (ret)
		link_close(link);
	return ret;
}

static int next_answer(struct link *link, struct answer *answer)
{
	char line[MESSAGE_LEN];
	int len = link_receive(link, line, sizeof(line));

	if (len < 0)
		return len;
	return answer_parse(answer, line, len) ? -EPROTO : 0;
}

int peer_ask(struct lidtrackd *d, const char *host, enum message_verb verb,
	     const struct record *record, const char *to, struct answer *answer)
{
	struct link link;
	int ret = ask(d, &link, host, verb, record, to);

	if (ret)
		return ret;
	ret = next_answer(&link, answer);
	link_close(&link);
	return ret;
}

int peer_list(struct lidtrackd *d, const char *host, enum message_verb verb,
	      void (*each)(void *arg, const struct record *record, const char *reason), void *arg)
{
	const struct record all = {.guest = "all", .state = MOVE_GONE, .function = -1};
	struct answer answer;
	struct link link;
	int ret = ask(d, &link, host, verb, &all, NULL);

	if (ret)
		return ret;
	while (!(ret = next_answer(&link, &answer)) && answer.knows)
		each(arg, &answer.record, answer.reason);
	link_close(&link);
	return ret ? ret : answer.answer == ANSWER_OK ? 0 : -EPROTO;
}
