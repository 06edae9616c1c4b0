// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* The lines of message.h. Pure functions. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "migrate/message.h"

#define VERSION "lidtrack1"
#define REASON	" | "

static const char *const verbs[MESSAGE_VERBS] = {"ask",	 "take", "look",  "move",
						 "plan", "list", "place", "lids"};
static const char *const answers[MESSAGE_ANSWERS] = {"ok", "refused", "later"};

/* The next word of a line; false: there is none. */
static bool take_word(const char **line, size_t *len, const char **word, size_t *word_len)
{
	const char *blank = memchr(*line, ' ', *len);

	*word = *line;
	*word_len = blank ? (size_t)(blank - *line) : *len;
	*line += *word_len + (blank ? 1 : 0);
	*len -= *word_len + (blank ? 1 : 0);
	return *word_len > 0;
}

static int which(const char *const *names, int count, const char *word, size_t len)
{
	for (int i = 0; i < count; i++)
		if (strlen(names[i]) == len && !memcmp(names[i], word, len))
			return i;
	return -1;
}

static bool take_host(const char **line, size_t *len, char *host)
{
	const char *word;
	size_t word_len;

	if (!take_word(line, len, &word, &word_len) || word_len >= RECORD_NAME_LEN)
		return false;
	memcpy(host, word, word_len);
	host[word_len] = '\0';
	return strlen(host) == word_len && record_name_valid(host);
}

size_t request_format(const struct request *request, char *line)
{
	size_t len = sprintf(line, VERSION " %s %s %s ", verbs[request->verb], request->from,
			     request->to);

	return len + record_format(&request->record, line + len);
}

int request_parse(struct request *request, const char *line, size_t len)
{
	const char *word;
	size_t word_len;
	int verb;

	memset(request, 0, sizeof(*request));
	if (!take_word(&line, &len, &word, &word_len) || word_len != strlen(VERSION) ||
	    memcmp(word, VERSION, word_len) != 0)
		return -EPROTO;
	if (!take_word(&line, &len, &word, &word_len))
		return -EINVAL;
	verb = which(verbs, MESSAGE_VERBS, word, word_len);
	if (verb < 0 || !take_host(&line, &len, request->from) ||
	    !take_host(&line, &len, request->to) || record_parse(&request->record, line, len))
		return -EINVAL;
	request->verb = verb;
	return request->record.guid || (verb != MESSAGE_ASK && verb != MESSAGE_TAKE &&
					verb != MESSAGE_PLACE)
		       ? 0
		       : -EINVAL;
}

size_t answer_format(const struct answer *answer, char *line)
{
	size_t len = sprintf(line, "%s", answers[answer->answer]);

	if (answer->answer != ANSWER_OK)
		return len + snprintf(line + len, MESSAGE_LEN - len, " %s", answer->reason);
	if (!answer->knows)
		return len;
	line[len++] = ' ';
	len += record_format(&answer->record, line + len);
	if (answer->reason[0])
		len += snprintf(line + len, MESSAGE_LEN - len, REASON "%s", answer->reason);
	return len;
}

static int take_reason(struct answer *answer, const char *text, size_t len)
{
	if (len >= sizeof(answer->reason))
		return -EINVAL;
	memcpy(answer->reason, text, len);
	return strlen(answer->reason) == len ? 0 : -EINVAL;
}

/* A record, and perhaps a reason behind it. */
static int take_record(struct answer *answer, const char *line, size_t len)
{
	const char *reason = memmem(line, len, REASON, strlen(REASON));
	size_t record_len = reason ? (size_t)(reason - line) : len;

	if (reason &&
	    take_reason(answer, reason + strlen(REASON), len - record_len - strlen(REASON)))
		return -EINVAL;
	return record_parse(&answer->record, line, record_len);
}

int answer_parse(struct answer *answer, const char *line, size_t len)
{
	const char *word;
	size_t word_len;
	int which_one;

	memset(answer, 0, sizeof(*answer));
	if (!take_word(&line, &len, &word, &word_len))
		return -EINVAL;
	which_one = which(answers, MESSAGE_ANSWERS, word, word_len);
	if (which_one < 0)
		return -EINVAL;
	answer->answer = which_one;
	if (which_one != ANSWER_OK)
		return take_reason(answer, line, len);
	answer->knows = len > 0;
	return len ? take_record(answer, line, len) : 0;
}
