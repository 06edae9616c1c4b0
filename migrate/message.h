/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What agents say to each other, a line for a request and a line for its answer:
 *
 *	lidtrack1 ask h1 h9 guid=0x0002c9… guest=guest7 state=asking epoch=3 pkeys=0xffff
 *	          verb, asking host, asked host, and what the sender knows of the vGUID
 *	ok guid=0x0002c9… …	done, and what this host knows of it; " | " and why it waits may follow
 *	ok			done, or: nothing is known of it
 *	refused no function …	it will not be done, and nothing of it has been
 *	later …			neither; ask again
 *
 * Pure functions.
 */
#ifndef MIGRATE_MESSAGE_H
#define MIGRATE_MESSAGE_H

#include "migrate/record.h"

#define MESSAGE_REASON_LEN 256
#define MESSAGE_LEN	   (RECORD_LINE_LEN + 2 * RECORD_NAME_LEN + MESSAGE_REASON_LEN + 64)

enum message_verb {
	MESSAGE_ASK,  /* have a function for it ready, the record's if that has one */
	MESSAGE_TAKE, /* it is yours */
	MESSAGE_LOOK, /* what do you know of it? guid 0: of the guest */
	MESSAGE_MOVE, /* yours is to go to that host ("to"), its function there and the wait for it; an order
			 passed on */
	MESSAGE_PLAN, /* would you have a function for it? */
	MESSAGE_LIST, /* all that you know: an "ok" with a record for each, and one without */
	MESSAGE_PLACE, /* shared-port, to the agent that tells the SM: it is at that host's port now, at
			  none, or (asking) about to move */
	MESSAGE_LIDS, /* OpenSM's guid2lid, an "ok" for each entry as of LIST */
	MESSAGE_VERBS
};

struct request {
	enum message_verb verb;
	char from[RECORD_NAME_LEN];
	char to[RECORD_NAME_LEN];
	struct record record;
};

enum message_answer { ANSWER_OK, ANSWER_REFUSED, ANSWER_LATER, MESSAGE_ANSWERS };

struct answer {
	enum message_answer answer;
	bool knows; /* record is there */
	struct record record;
	char reason[MESSAGE_REASON_LEN]; /* why not, or why it waits */
};

/* Lines without their end, into MESSAGE_LEN bytes; their lengths. */
size_t request_format(const struct request *request, char *line);
size_t answer_format(const struct answer *answer, char *line);
/* -EINVAL; -EPROTO: of another version. */
int request_parse(struct request *request, const char *line, size_t len);
int answer_parse(struct answer *answer, const char *line, size_t len);

#endif
