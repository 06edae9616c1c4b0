/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The HTTP server for Prometheus. Few connections, none for long.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemons/common/counters.h"
#include "daemons/common/http.h"
#include "daemons/common/log.h"
#include "daemons/common/metrics.h"

#define MAX_CONNECTIONS 16
#define MEMORY		(16 << 10) /* of a connection, for its request */
#define IDLE_S		10

struct metrics {
	void (*write)(FILE *out, void *arg);
	void *arg;
	struct http *http;
};

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned status, char *text,
			      size_t length, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(
		length, text, type ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT);
	enum MHD_Result ret;

	if (!response) {
		if (type)
			free(text);
		return MHD_NO;
	}
	MHD_add_response_header(response, "Content-Type", type ? type : "text/plain");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, "Allow", "GET, HEAD");
	ret = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return ret;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why)
{
	return answer(connection, status, (char *)why, strlen(why), NULL);
}

/* All metrics, malloc'ed; NULL: no memory. */
static char *write_text(const struct metrics *metrics, size_t *length)
{
	char *text = NULL, name[128];
	FILE *out = open_memstream(&text, length);
	bool failed;

	if (!out)
		return NULL;
	snprintf(name, sizeof(name), "%s_build_info", log_name());
	counters_family(out, name, true, "The version of the daemon.");
	fprintf(out, "%s{version=\"%s\"} 1\n", name, URXE_VERSION);
	metrics->write(out, metrics->arg);
	failed = ferror(out);
	if (!fclose(out) && !failed)
		return text;
	free(text);
	return NULL;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *size, void **context)
{
	static char seen;
	struct metrics *metrics = arg;
	size_t length;
	char *text;

	/* First for the headers alone; then what comes behind them is thrown away. */
	if (!*context) {
		*context = &seen;
		return MHD_YES;
	}
	if (*size) {
		*size = 0;
		return MHD_YES;
	}
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET /metrics\n");
	if (strcmp(url, "/metrics") != 0)
		return refuse(connection, MHD_HTTP_NOT_FOUND, "There is only /metrics here.\n");
	text = write_text(metrics, &length);
	if (!text)
		return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "No memory.\n");
	return answer(connection, MHD_HTTP_OK, text, length,
		      "text/plain; version=0.0.4; charset=utf-8");
}

int metrics_start(struct event_base *base, const char *listen, void (*write)(FILE *out, void *arg),
		  void *arg, struct metrics **out)
{
	struct http_options options = {
		.listen = listen,
		.key = "metrics_listen",
		.connections = MAX_CONNECTIONS,
		.memory = MEMORY,
		.idle_s = IDLE_S,
		.answer = on_request,
	};
	struct metrics *metrics;
	int ret;

	if (!listen[0])
		return 0;
	metrics = calloc(1, sizeof(*metrics));
	if (!metrics)
		return -ENOMEM;
	metrics->write = write;
	metrics->arg = arg;
	options.arg = metrics;
	ret = http_start(base, &options, &metrics->http);
	if (ret == -EADDRINUSE)
		log_error("metrics_listen %s: %s", listen, strerror(-ret));
	if (ret)
		free(metrics);
	else
		*out = metrics;
	return ret;
}

void metrics_stop(struct metrics *metrics)
{
	if (!metrics)
		return;
	http_stop(metrics->http);
	free(metrics);
}
