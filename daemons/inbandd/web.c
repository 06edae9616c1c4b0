/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * See web.h. A command whose answer takes time has its connection suspended; the answer is what it
 * said last, or, of one that says more, a line for each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemons/common/json.h"
#include "daemons/common/log.h"
#include "daemons/inbandd/web.h"

#define CONNECTIONS 64
#define HEADERS	    (16 << 10)
#define IDLE_S	    60
#define MAX_BODY    (64 << 10)
#define MAX_ANSWER  (16 << 20)

struct web_request {
	struct web_request *next;
	struct web *web;
	struct MHD_Connection *connection;
	char *body;
	size_t length;
	bool too_long, done, suspended, in_list;
	struct control_client *client; /* a command is under way */
	char *answer;
	size_t answer_length;
	unsigned lines;
	bool failed;
};

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned status,
			     struct MHD_Response *response, const char *type)
{
	static const char policy[] = "default-src 'self'; style-src 'self' 'unsafe-inline'; "
				     "img-src 'self' data:; frame-ancestors 'none'";
	enum MHD_Result ret;

	if (!response)
		return MHD_NO;
	MHD_add_response_header(response, "Content-Type", type);
	MHD_add_response_header(response, "Cache-Control", "no-cache");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Content-Security-Policy", policy);
	ret = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return ret;
}

static enum MHD_Result queue_json(struct MHD_Connection *connection, unsigned status,
				  struct json_object *object, const char *cookie)
{
	const char *text = json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
	struct MHD_Response *response =
		text ? MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
						       MHD_RESPMEM_MUST_COPY)
		     : NULL;

	json_object_put(object);
	if (response && cookie)
		MHD_add_response_header(response, "Set-Cookie", cookie);
	if (response && status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
	return queue(connection, status, response, "application/json");
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned status, const char *why)
{
	struct json_object *answer = json_object_new_object();

	json_add_bool(answer, "ok", false);
	json_add_text(answer, "error", why);
	return queue_json(connection, status, answer, NULL);
}

/* ---- commands ---- */

static enum MHD_Result queue_answer(struct web_request *r)
{
	struct MHD_Response *response =
		MHD_create_response_from_buffer(r->answer_length, r->answer, MHD_RESPMEM_MUST_FREE);

	if (!response)
		free(r->answer);
	r->answer = NULL;
	return queue(r->connection, r->failed ? MHD_HTTP_UNPROCESSABLE_CONTENT : MHD_HTTP_OK,
		     response, r->lines > 1 ? "application/x-ndjson" : "application/json");
}

static void answered(struct web_request *r)
{
	struct web *web = r->web;

	r->done = true;
	r->client = NULL;
	for (struct web_request **at = &web->waiting; *at; at = &(*at)->next)
		if (*at == r) {
			*at = r->next;
			break;
		}
	if (!r->suspended)
		return;
	r->suspended = false;
	MHD_resume_connection(r->connection);
	http_kick(web->http);
}

static void take_line(void *arg, struct json_object *line)
{
	struct web_request *r = arg;
	struct json_object *ok;
	const char *text;
	size_t length;
	char *more;

	if (!line) {
		answered(r);
		return;
	}
	text = json_object_to_json_string_ext(line, JSON_C_TO_STRING_PLAIN |
							    JSON_C_TO_STRING_NOSLASHESCAPE);
	length = text ? strlen(text) : 0;
	more = text && r->answer_length + length < MAX_ANSWER
		       ? realloc(r->answer, r->answer_length + length + 1)
		       : NULL;
	if (!more) {
		r->failed = true;
		return;
	}
	r->answer = more;
	memcpy(more + r->answer_length, text, length);
	more[r->answer_length + length] = '\n';
	r->answer_length += length + 1;
	r->lines++;
	if (json_object_object_get_ex(line, "ok", &ok) && !json_object_get_boolean(ok))
		r->failed = true;
}

static enum MHD_Result call(struct web_request *r, struct json_object *request, const char *who)
{
	int ret = control_call(r->web->d->control, request, who, take_line, r, &r->client);

	json_object_put(request);
	if (ret)
		return refuse(r->connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory");
	if (r->done)
		return queue_answer(r);
	r->next = r->web->waiting;
	r->web->waiting = r;
	r->suspended = true;
	MHD_suspend_connection(r->connection);
	return MHD_YES;
}

struct gathering {
	struct json_object *request;
	bool bad;
};

static enum MHD_Result gather(void *arg, enum MHD_ValueKind kind, const char *key,
			      const char *value)
{
	struct gathering *g = arg;

	g->bad |= !web_argument(g->request, key, value);
	return MHD_YES;
}

static const char *address_of(struct MHD_Connection *connection, char text[INET6_ADDRSTRLEN])
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *address = info ? info->client_addr : NULL;

	if (address && address->sa_family == AF_INET)
		return inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text,
				 INET6_ADDRSTRLEN);
	if (address && address->sa_family == AF_INET6)
		return inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text,
				 INET6_ADDRSTRLEN);
	return "";
}

static enum MHD_Result on_command(struct web_request *r, const char *command, bool post,
				  enum web_role role, const char *name)
{
	struct gathering g = {0};
	char who[64], address[INET6_ADDRSTRLEN];

	if (!strcmp(command, "watch"))
		return refuse(r->connection, MHD_HTTP_NOT_FOUND, "GET /events says what happens");
	if (!post && command_changes(command))
		return refuse(r->connection, MHD_HTTP_METHOD_NOT_ALLOWED,
			      "that changes something: POST it");
	if (post && role != WEB_OPERATOR)
		return refuse(r->connection, MHD_HTTP_FORBIDDEN,
			      "an operator may do that: show an operator's token (http_tokens)");
	g.request = post ? web_body(r->body ?: "{}", r->body ? r->length : 2)
			 : json_object_new_object();
	if (!post)
		MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, gather, &g);
	if (!g.request || g.bad) {
		json_object_put(g.request);
		return refuse(r->connection, MHD_HTTP_BAD_REQUEST,
			      post ? "the body is to be a JSON object"
				   : "there is no such argument");
	}
	json_add_text(g.request, "command", command);
	snprintf(who, sizeof(who), "%s %s", name, address_of(r->connection, address));
	return call(r, g.request, who);
}

/* ---- who one is ---- */

static enum MHD_Result on_session(struct web_request *r, const char *method, enum web_role role,
				  const char *name)
{
	static const char *const roles[] = {"nobody", "viewer", "operator"};
	struct json_object *body, *answer;
	const char *token = NULL, *set = NULL;
	char cookie[WEB_TOKEN_LEN + 64];

	if (!strcmp(method, "POST")) {
		body = web_body(r->body ?: "", r->body ? r->length : 0);
		if (json_get_text(body, "token", &token) && token)
			role = web_role_of(&r->web->tokens, token, &name);
		if (!token || !name[0]) {
			json_object_put(body);
			return refuse(r->connection, MHD_HTTP_FORBIDDEN, "nobody has that token");
		}
		snprintf(cookie, sizeof(cookie), "inbandd=%s; HttpOnly; SameSite=Strict; Path=/",
			 token);
		json_object_put(body);
		set = cookie;
	} else if (!strcmp(method, "DELETE")) {
		role = web_role_of(&r->web->tokens, NULL, &name);
		set = "inbandd=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0";
	}
	answer = json_object_new_object();
	json_add_bool(answer, "ok", true);
	json_add_text(answer, "role", roles[role]);
	json_add_text(answer, "name", name);
	json_add_bool(answer, "tokens", r->web->tokens.count);
	return queue_json(r->connection, MHD_HTTP_OK, answer, set);
}

/* ---- what is there to be read ---- */

static enum MHD_Result on_model(struct MHD_Connection *connection, const struct inbandd *d)
{
	size_t size = 0;
	void *data = web_model(d, &size);

	if (!data)
		return refuse(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "no memory");
	return queue(connection, MHD_HTTP_OK,
		     MHD_create_response_from_buffer(size, data, MHD_RESPMEM_MUST_FREE),
		     "application/octet-stream");
}

static enum MHD_Result on_events(struct MHD_Connection *connection, struct web *web)
{
	const char *after =
		MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Last-Event-ID");

	if (!after)
		after = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "after");
	return queue(connection, MHD_HTTP_OK, stream_response(web, connection, after),
		     "text/event-stream");
}

/* Debian's, and not in this program. */
static enum MHD_Result on_dygraphs(struct MHD_Connection *connection, const struct web *web,
				   const char *name)
{
	bool style = !strcmp(name, "dygraph.min.css");
	struct MHD_Response *response;
	struct stat st;
	char path[320];
	int fd;

	if (!style && strcmp(name, "dygraph.min.js") != 0)
		return refuse(connection, MHD_HTTP_NOT_FOUND, "there is no such file");
	snprintf(path, sizeof(path), "%s/%s", web->d->config.http_dygraphs, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		return refuse(connection, MHD_HTTP_NOT_FOUND,
			      "charts need dygraphs: install libjs-dygraphs, or set http_dygraphs");
	}
	response = MHD_create_response_from_fd(st.st_size, fd);
	if (!response)
		close(fd);
	return queue(connection, MHD_HTTP_OK, response, style ? "text/css" : "text/javascript");
}

static enum MHD_Result on_file(struct MHD_Connection *connection, const char *name)
{
	if (!name[0])
		name = "index.html";
	for (const struct web_file *f = web_files; f->name; f++)
		if (!strcmp(f->name, name))
			return queue(connection, MHD_HTTP_OK,
				     MHD_create_response_from_buffer(f->size,
								     (void *)(uintptr_t)f->data,
								     MHD_RESPMEM_PERSISTENT),
				     f->type);
	return refuse(connection, MHD_HTTP_NOT_FOUND, "there is no such page");
}

static bool begins(const char *url, const char *with, const char **rest)
{
	size_t length = strlen(with);

	*rest = url + length;
	return !strncmp(url, with, length);
}

static enum MHD_Result answer_it(struct web_request *r, const char *url, const char *method)
{
	struct MHD_Connection *c = r->connection;
	struct web *web = r->web;
	const char *rest, *name;
	char token[WEB_TOKEN_LEN];
	enum web_role role = web_role_of(
		&web->tokens,
		web_token(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Authorization"),
			  MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Cookie"), token),
		&name);
	bool get = !strcmp(method, "GET") || !strcmp(method, "HEAD");
	bool post = !strcmp(method, "POST");

	if (!web->d->config.http_remote &&
	    !web_host_is_local(MHD_lookup_connection_value(c, MHD_HEADER_KIND, "Host")))
		return refuse(c, MHD_HTTP_MISDIRECTED_REQUEST, "this is http://127.0.0.1");
	if (r->too_long)
		return refuse(c, MHD_HTTP_CONTENT_TOO_LARGE, "a body has 64 KiB at most");
	if (!strcmp(url, "/session") && (get || post || !strcmp(method, "DELETE")))
		return on_session(r, method, role, name);
	if (!get && !post)
		return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "GET or POST");
	if (get && begins(url, "/dygraphs/", &rest))
		return on_dygraphs(c, web, rest);
	if (begins(url, "/api/", &rest) || !strcmp(url, "/model") || !strcmp(url, "/events")) {
		if (role == WEB_NOBODY)
			return refuse(c, MHD_HTTP_UNAUTHORIZED, "show a token");
		if (!strcmp(url, "/model") && get)
			return on_model(c, web->d);
		if (!strcmp(url, "/events") && get)
			return on_events(c, web);
		return on_command(r, begins(url, "/api/", &rest) ? rest : "", post, role, name);
	}
	if (post)
		return refuse(c, MHD_HTTP_METHOD_NOT_ALLOWED, "commands are below /api/");
	return on_file(c, url + (url[0] == '/'));
}

static bool take_body(struct web_request *r, const char *data, size_t size)
{
	char *more;

	if (r->too_long || r->length + size > MAX_BODY) {
		r->too_long = true;
		return true;
	}
	more = realloc(r->body, r->length + size);
	if (!more)
		return false;
	memcpy(more + r->length, data, size);
	r->body = more;
	r->length += size;
	return true;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *size, void **context)
{
	struct web_request *r = *context;

	if (!r) {
		*context = r = calloc(1, sizeof(*r));
		if (!r)
			return MHD_NO;
		r->web = arg;
		r->connection = connection;
		return MHD_YES;
	}
	if (*size) {
		if (!take_body(r, data, *size))
			return MHD_NO;
		*size = 0;
		return MHD_YES;
	}
	return r->done ? queue_answer(r) : answer_it(r, url, method);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode code)
{
	struct web_request *r = *context;

	if (!r)
		return;
	if (r->client)
		control_hang_up(r->client);
	r->suspended = false;
	answered(r);
	free(r->body);
	free(r->answer);
	free(r);
	*context = NULL;
}

/* ---- its beginning and end ---- */

static bool is_loopback(const char *listen)
{
	struct sockaddr_storage address;
	int length = sizeof(address);
	const struct sockaddr_in *in = (const struct sockaddr_in *)&address;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address;

	/* What is no address is told by http_start(). */
	if (evutil_parse_sockaddr_port(listen, (struct sockaddr *)&address, &length))
		return true;
	return address.ss_family == AF_INET ? ntohl(in->sin_addr.s_addr) >> 24 == 127
					    : IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

static int open_door(struct web *web)
{
	const struct inbandd_config *config = &web->d->config;
	struct http_options options = {
		.listen = config->http_listen,
		.key = "http_listen",
		.connections = CONNECTIONS,
		.memory = HEADERS,
		.idle_s = IDLE_S,
		.port = &web->port,
		.answer = on_request,
		.completed = on_completed,
		.arg = web,
	};
	int ret;

	if (!config->http_remote && !is_loopback(config->http_listen)) {
		log_error("http_listen %s: others than this machine reach that: if they are to, "
			  "say http_remote yes",
			  config->http_listen);
		return -EINVAL;
	}
	if (config->http_tokens[0]) {
		ret = web_tokens_load(&web->tokens, config->http_tokens);
		if (ret)
			return ret;
	}
	ret = http_start(web->d->loop.base, &options, &web->http);
	if (ret == -EADDRINUSE && !strcmp(config->http_listen, INBANDD_HTTP)) {
		log_warning("there is no page: another program listens on " INBANDD_HTTP
			    "; set http_listen");
		return 0;
	}
	if (ret == -EADDRINUSE)
		log_error("http_listen %s: %s", config->http_listen, strerror(-ret));
	return ret;
}

/* A port that was not asked for is told with the address. */
static void tell_address(const char *listen, uint16_t port)
{
	char end[16];

	snprintf(end, sizeof(end), ":%u", port);
	log_info("http://%s%s", listen, strstr(listen, end) ? "" : end);
}

int web_start(struct inbandd *d, struct web **out)
{
	struct web *web;
	int ret;

	if (!d->config.http_listen[0])
		return 0;
	web = calloc(1, sizeof(*web));
	if (!web)
		return -ENOMEM;
	web->d = d;
	ret = open_door(web);
	if (!ret)
		ret = streams_start(web);
	if (!ret && web->http)
		tell_address(d->config.http_listen, web->port);
	*out = web;
	return ret;
}

void web_stop(struct web *web)
{
	if (!web)
		return;
	while (web->waiting) {
		struct web_request *r = web->waiting;

		control_hang_up(r->client);
		answered(r);
	}
	streams_stop(web);
	http_stop(web->http);
	free(web);
}
