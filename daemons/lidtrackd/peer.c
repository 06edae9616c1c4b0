// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Requests to other agents: a connection for each, since moves are rare and a kept one can be dead.
 * Any thread but the loop's: all of it waits.
 */
#include <errno.h>
#include <pthread.h>
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

struct listing {
	struct lidtrackd *d;
	const char *host;
	void (*each)(void *arg, const char *host, const struct record *record, const char *reason);
	void *arg;
	pthread_mutex_t *lock;
	pthread_t thread;
	bool threaded;
	int ret;
};

static void listed(void *arg, const struct record *record, const char *reason)
{
	struct listing *l = arg;

	pthread_mutex_lock(l->lock);
	l->each(l->arg, l->host, record, reason);
	pthread_mutex_unlock(l->lock);
}

static void *list(void *arg)
{
	struct listing *l = arg;

	l->ret = peer_list(l->d, l->host, MESSAGE_LIST, listed, l);
	return NULL;
}

unsigned peer_list_all(struct lidtrackd *d,
		       void (*each)(void *arg, const char *host, const struct record *record,
				    const char *reason),
		       void *arg, const char **silent)
{
	struct listing listings[MAX_PEERS];
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	unsigned count = 0;

	for (unsigned i = 0; i < d->config.num_peers; i++) {
		struct listing *l = &listings[i];

		*l = (struct listing){.d = d,
				      .host = d->config.peers[i].host,
				      .each = each,
				      .arg = arg,
				      .lock = &lock};
		l->threaded = !pthread_create(&l->thread, NULL, list, l);
		if (!l->threaded)
			list(l);
	}
	for (unsigned i = 0; i < d->config.num_peers; i++) {
		if (listings[i].threaded)
			pthread_join(listings[i].thread, NULL);
		if (listings[i].ret)
			silent[count++] = listings[i].host;
	}
	return count;
}
