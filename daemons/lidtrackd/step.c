// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The steps of the table, each one try in a thread of its own: they wait for another agent, the SA,
 * the provider of functions or the guest's manager. A step has a copy of the record; of the daemon
 * it uses what is constant, the SA's handle and the lock of the functions.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemons/common/clock.h"
#include "daemons/common/log.h"
#include "daemons/lidtrackd/lidtrackd.h"

#define GUEST_TIMEOUT_MS 60000
#define UNSEEN		 1500 /* times retry, until a function that the SM has missed is set anew */
#define NOT_YET		 75   /* EX_TEMPFAIL of the guest's command */
#define CANNOT_RUN	 127  /* as shells say it */

__attribute__((format(printf, 2, 3))) static void because(struct step *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(s->reason, sizeof(s->reason), format, args);
	va_end(args);
}

/* Once more after a while. */
__attribute__((format(printf, 2, 3))) static void again(struct step *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(s->reason, sizeof(s->reason), format, args);
	va_end(args);
	s->again = true;
}

static bool is_shared(const struct step *s)
{
	return s->d->config.mode == MODE_SHARED_PORT;
}

/* ---- the guest's command ---- */

static int wait_for(pid_t pid)
{
	struct pollfd wait = {.fd = pidfd_open(pid, 0), .events = POLLIN};
	int status, ret = 0;

	if (wait.fd >= 0) {
		do {
			ret = poll(&wait, 1, GUEST_TIMEOUT_MS);
		} while (ret < 0 && errno == EINTR);
		close(wait.fd);
	}
	if (!ret)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return !ret ? NOT_YET : WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/*
 * In the child of a fork. It ends with the agent, or rather with the thread of this step, which
 * waits for it: the next agent runs the command again, and two at a time would be one too many.
 */
__attribute__((noreturn)) static void become_command(char *const *argv, pid_t agent)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == agent)
		execv(argv[0], argv);
	_exit(CANNOT_RUN);
}

static int run_guest(struct step *s, const char *verb)
{
	char function[16], guid[24];
	char *argv[] = {s->d->config.guest_command, (char *)verb, s->r.guest, function, guid, NULL};
	pid_t agent = getpid(), pid;

	snprintf(function, sizeof(function), "%d", s->r.function);
	snprintf(guid, sizeof(guid), "0x%016" PRIx64, s->guid);
	pid = fork();
	if (!pid)
		become_command(argv, agent);
	return pid < 0 ? -errno : wait_for(pid);
}

/* ---- functions ---- */

/* The number of the function that has the GUID; -ENOENT; another -errno. *functions is the
 * caller's. */
static int function_of(struct step *s, struct function functions[FUNCTION_MAX], int *count)
{
	*count = s->d->provider->list(s->d->where, functions, FUNCTION_MAX);
	if (*count < 0)
		return *count == -ENOENT ? -ENODEV : *count; /* they are out of sight */
	for (int i = 0; i < *count; i++)
		if (functions[i].guid == s->guid)
			return functions[i].number;
	return -ENOENT;
}

int functions_free(struct lidtrackd *d, unsigned *count)
{
	struct function functions[FUNCTION_MAX];
	int n = d->provider->list(d->where, functions, FUNCTION_MAX);

	*count = 0;
	for (int i = 0; i < n; i++)
		*count += !functions[i].guid && !functions[i].busy;
	return n < 0 ? n : 0;
}

bool function_is_free(struct lidtrackd *d, int number)
{
	struct function functions[FUNCTION_MAX];
	int n = d->provider->list(d->where, functions, FUNCTION_MAX);

	for (int i = 0; i < n; i++)
		if (functions[i].number == number)
			return !functions[i].guid && !functions[i].busy;
	return false;
}

static void cannot_see(struct step *s, int error)
{
	again(s, "functions of %s cannot be seen: %s", s->d->where, function_strerror(error));
}

static void sa_is_silent(struct step *s, int error)
{
	again(s, "the SA does not answer: %s", sa_strerror(error));
}

/* shared-port. False after again(). */
static bool ask_tracker(struct step *s, struct answer *answer)
{
	const char *tracker = s->d->config.tracker;
	int ret = peer_ask(s->d, tracker, MESSAGE_PLACE, &s->r, NULL, answer);

	if (ret)
		again(s, "the tracker, %s, does not answer: %s", tracker, link_strerror(ret));
	else if (answer->answer != ANSWER_OK)
		again(s, "%s: %s", tracker, answer->reason);
	return !s->again;
}

/* The tracker is to know where it is, and gives it its LID. Afterwards again() or not. */
static void tell_tracker(struct step *s, bool here)
{
	struct sa_own_port own = {0};
	struct answer answer;
	int ret = here ? sa_own_port(&s->d->sa, &own) : 0;

	s->r.port = own.guid;
	if (ret)
		again(s, "the port of this host: %s", sa_strerror(ret));
	else if (ask_tracker(s, &answer) && here && answer.knows)
		s->r.lid = answer.record.lid;
}

static bool is_promised(const struct step *s, int number)
{
	return number >= 0 && number < FUNCTION_MAX && s->promised[number];
}

/* The one it had or is to have, if that is free; else the first that nobody waits for. */
static int choose(struct step *s, const struct function *functions, int count)
{
	int first = -1;

	for (int i = 0; i < count; i++) {
		if (functions[i].guid || functions[i].busy)
			continue;
		if (functions[i].number == s->r.function)
			return functions[i].number;
		if (first < 0 && !is_promised(s, functions[i].number))
			first = functions[i].number;
	}
	return first;
}

static void set_free_one(struct step *s, const struct function *functions, int count)
{
	int number = choose(s, functions, count), ret;

	if (number < 0) {
		again(s, "no function is free");
		return;
	}
	ret = s->d->provider->set(s->d->where, number, &s->r);
	if (ret)
		again(s, "function %d does not take the GUID: %s", number, strerror(-ret));
	else
		s->r.function = number;
}

/* Another agent has the guest. */
static bool has_it(const struct answer *answer)
{
	return answer->answer == ANSWER_OK && answer->knows &&
	       (move_owns(answer->record.state) || move_wants(answer->record.state));
}

/* Of a later change of owner than this one's: after a fence. */
static bool is_later(const struct step *s, const struct answer *answer)
{
	return has_it(answer) && record_order(&answer->record, &s->r) > 0;
}

/*
 * An agent that has the guest of a later change of owner; NULL. Of the other host of the move and
 * of a rival; of all agents after a fence, which is confirmed when each has answered and none has
 * the guest, and with all.
 */
static const char *rival_of(struct step *s, bool all)
{
	const struct lidtrackd_config *c = &s->d->config;
	bool confirmed = true;
	struct answer answer;

	for (unsigned i = 0; i < c->num_peers; i++) {
		const char *host = c->peers[i].host;
		bool is_rival = !strcmp(host, s->rival);

		if (!all && !s->r.fence && !is_rival && strcmp(host, s->r.peer) != 0)
			continue;
		if (peer_ask(s->d, host, MESSAGE_LOOK, &s->r, NULL, &answer) ||
		    answer.answer != ANSWER_OK) {
			confirmed = false;
			continue;
		}
		if (is_later(s, &answer))
			return host;
		if (is_rival)
			s->rival[0] = '\0';
		confirmed = confirmed && !has_it(&answer);
	}
	if (confirmed && s->what == STEP_WATCH)
		s->r.fence = 0;
	return NULL;
}

/* It is to be forgotten here: the guest lets go of its function, and that has no GUID. */
static void yield_to(struct step *s, const char *host, int function)
{
	int ret = 0;

	if (function >= 0) {
		s->r.function = function;
		ret = s->d->config.guest_command[0] ? run_guest(s, "detach") : 0;
		if (ret) {
			again(s, "%s has it, and the guest here has not let go of it: status %d",
			      host, ret);
			return;
		}
		ret = s->d->provider->clear(s->d->where, function);
	}
	if (ret) {
		again(s, "%s has it, and function %d does not let go of the GUID: %s", host,
		      function, strerror(-ret));
		return;
	}
	s->event = EVENT_REFUSED;
	because(s, "%s has it: this host was silent, or said to be off", host);
}

/* The SA has a port with the GUID, and it is not here: it may be gone soon, or another agent's. */
static void wait_for_absence(struct step *s)
{
	const char *host = rival_of(s, true);

	if (host)
		yield_to(s, host, -1);
	else
		again(s, "the SM still has a port with that GUID");
}

static void set_function(struct step *s)
{
	struct function functions[FUNCTION_MAX];
	struct sa_port port = {0};
	int count, number = function_of(s, functions, &count), ret = -ENOENT;
	const char *host = rival_of(s, false);

	if (host) {
		yield_to(s, host, number);
		return;
	}
	if (number >= 0) {
		s->r.function = number;
		return;
	}
	if (number != -ENOENT) {
		cannot_see(s, number);
		return;
	}
	if (!is_shared(s))
		ret = sa_find_port(&s->d->sa, s->guid, false, &port);
	if (!ret) {
		wait_for_absence(s);
		return;
	}
	if (ret != -ENOENT) {
		sa_is_silent(s, ret);
		return;
	}
	pthread_mutex_lock(&s->d->functions);
	number = function_of(s, functions, &count);
	if (number == -ENOENT)
		set_free_one(s, functions, count);
	else if (number < 0)
		cannot_see(s, number);
	else
		s->r.function = number;
	pthread_mutex_unlock(&s->d->functions);
}

static void step_set(struct step *s)
{
	set_function(s);
	if (!s->again && s->event == EVENT_DONE && is_shared(s))
		tell_tracker(s, true);
}

static void step_clear(struct step *s)
{
	struct function functions[FUNCTION_MAX];
	int count, number, ret = 0;

	pthread_mutex_lock(&s->d->functions);
	number = function_of(s, functions, &count);
	if (number >= 0) {
		ret = s->d->provider->clear(s->d->where, number);
		/* It is believed when it is read. */
		number = ret ? ret : function_of(s, functions, &count);
	}
	pthread_mutex_unlock(&s->d->functions);
	if (number == -ENOENT && is_shared(s))
		tell_tracker(s, false);
	if (number == -ENOENT)
		s->r.function = -1;
	else if (number >= 0)
		again(s, "function %d still has the GUID", number);
	else
		cannot_see(s, number);
}

/* ---- the subnet manager ---- */

static void step_absent(struct step *s)
{
	const char *host = NULL;
	struct sa_port port;
	int ret = -ENOENT;

	if (!s->r.peer[0]) {
		s->event = EVENT_FREED; /* who is given the GUID next asks the SA */
		return;
	}
	/* In a shared port the vGUID is no port's. */
	if (!is_shared(s))
		ret = sa_find_port(&s->d->sa, s->guid, false, &port);
	if (!ret && (s->r.fence || s->rival[0]))
		host = rival_of(s, false);
	if (host) {
		s->event = EVENT_REFUSED; /* and then it is forgotten */
		because(s, "%s has it", host);
	} else if (!ret) {
		again(s, "the SM still has it at LID %u", port.lid);
	} else if (ret != -ENOENT) {
		sa_is_silent(s, ret);
	}
}

static bool has_pkey(const struct sa_port *port, uint16_t pkey)
{
	for (unsigned i = 0; i < sizeof(port->pkeys) / sizeof(*port->pkeys); i++)
		if (port->pkeys[i] == pkey)
			return true;
	return false;
}

/* Those that it has, where nobody has said which it is to have. */
static void learn_pkeys(struct step *s, const struct sa_port *port)
{
	for (unsigned i = 0; i < RECORD_PKEYS && port->pkeys[i]; i++)
		s->r.pkeys[s->r.num_pkeys++] = port->pkeys[i];
}

/*
 * OpenSM ignores a switch's traps after ten within five seconds. A sweep that has found
 * the switch's PortStateChange set clears it when it writes the forwarding tables; a port
 * that came up after the sweep had read it, and whose trap was ignored, OpenSM does not
 * see until it changes again.
 */
static void show_again(struct step *s, int number)
{
	int ret;

	pthread_mutex_lock(&s->d->functions);
	ret = s->d->provider->clear(s->d->where, number);
	pthread_mutex_unlock(&s->d->functions);
	if (ret) {
		again(s, "function %d does not let go of the GUID: %s", number, strerror(-ret));
		return;
	}
	s->event = EVENT_REFUSED;
	because(s, "the SM has not seen function %d, which is set anew", number);
}

static void step_present(struct step *s)
{
	struct function functions[FUNCTION_MAX];
	struct sa_port port;
	int count, number = function_of(s, functions, &count), ret;

	if (number == -ENOENT) {
		s->event = EVENT_REFUSED;
		because(s, "function %d has lost the GUID", s->r.function);
		return;
	}
	if (number < 0) {
		cannot_see(s, number);
		return;
	}
	ret = sa_find_port(&s->d->sa, is_shared(s) ? s->r.port : s->guid, true, &port);
	if (!ret && is_shared(s) && port.lid != s->r.lid) {
		again(s, "the host has LID %u, and is to have %u", port.lid, s->r.lid);
		return;
	}
	if (ret == -ENOENT && !is_shared(s) && s->waited > UNSEEN * s->d->config.retry) {
		show_again(s, number);
		return;
	}
	if (ret && ret != -ENOENT) {
		sa_is_silent(s, ret);
		return;
	}
	if (ret || port.state != 4) {
		again(s, ret ? "the SM does not have it yet" : "its port is not Active yet");
		return;
	}
	for (unsigned i = 0; i < s->r.num_pkeys; i++)
		if (s->r.pkeys[i] && !has_pkey(&port, s->r.pkeys[i])) {
			again(s, "the SM has not given it P_Key 0x%04x", s->r.pkeys[i]);
			return;
		}
	if (!s->r.num_pkeys)
		learn_pkeys(s, &port);
	s->r.lid = port.lid;
	s->r.lmc = port.lmc;
}

/* ---- the other agent ---- */

static void no_answer(struct step *s, int ret)
{
	again(s, "%s does not answer: %s", s->r.peer, link_strerror(ret));
}

static void take_answer(struct step *s, int ret, const struct answer *answer)
{
	if (ret)
		no_answer(s, ret);
	else if (answer->answer == ANSWER_LATER)
		again(s, "%s: %s", s->r.peer, answer->reason);
	else if (answer->answer == ANSWER_REFUSED) {
		s->event = EVENT_REFUSED;
		because(s, "%s: %s", s->r.peer, answer->reason);
	}
}

static void step_ask(struct step *s)
{
	struct record asked = s->r;
	struct answer answer;

	if (is_shared(s) && !ask_tracker(s, &answer))
		return;
	asked.function = s->r.wanted;
	asked.wanted = -1;
	asked.wait = 0;
	take_answer(s, peer_ask(s->d, s->r.peer, MESSAGE_ASK, &asked, NULL, &answer), &answer);
}

static void step_hand(struct step *s)
{
	struct answer answer;

	take_answer(s, peer_ask(s->d, s->r.peer, MESSAGE_TAKE, &s->r, NULL, &answer), &answer);
}

/* Is the peer a source that is for a move to this host, begun with that change of owner? */
static int peer_wants(struct step *s, const struct record *begun, struct answer *answer,
		      bool *wants)
{
	int ret = peer_ask(s->d, s->r.peer, MESSAGE_LOOK, &s->r, NULL, answer);

	if (!ret && answer->answer != ANSWER_OK)
		ret = -EPROTO;
	*wants = !ret && answer->knows && move_wants(answer->record.state) &&
		 !record_order(&answer->record, begun) &&
		 !strcmp(answer->record.peer, s->d->config.host);
	return ret;
}

static void step_look(struct step *s)
{
	struct answer answer;
	bool wants;
	int ret = peer_wants(s, &s->r, &answer, &wants);

	if (ret)
		no_answer(s, ret);
	else if (!wants)
		s->event = EVENT_REFUSED;
}

/* Has another agent a later record of it? Afterwards again(), refused, or neither. */
static void watch_others(struct step *s)
{
	struct record begun = s->r;
	struct answer answer = {0};
	const char *host = NULL;
	bool wants = false;
	int ret = 0;

	begun.epoch--;
	if (s->r.peer[0])
		ret = peer_wants(s, &begun, &answer, &wants);
	if (ret || wants) {
		no_answer(s, ret ? ret : -EINPROGRESS);
		return;
	}
	if (s->r.peer[0] && is_later(s, &answer))
		host = s->r.peer;
	else if (s->r.fence || s->rival[0])
		host = rival_of(s, false);
	if (host) {
		s->event = EVENT_REFUSED; /* and then it is forgotten */
		because(s, "%s has it", host);
		return;
	}
	s->r.peer[0] = '\0';
}

static void step_watch(struct step *s)
{
	struct function functions[FUNCTION_MAX];
	int count, number;

	watch_others(s);
	if (s->again || s->event != EVENT_DONE)
		return;
	number = function_of(s, functions, &count);
	if (number == -ENOENT) {
		s->event = EVENT_REFUSED;
		because(s, "function %d has lost the GUID", s->r.function);
	} else if (number < 0) {
		cannot_see(s, number);
	} else {
		s->r.function = number;
	}
}

/* ---- the guest ---- */

static void step_attach(struct step *s)
{
	int ret = s->d->config.guest_command[0] ? run_guest(s, "attach") : 0;

	if (ret)
		again(s, "%s attach: status %d", s->d->config.guest_command, ret);
}

static void step_detach(struct step *s)
{
	int ret = s->d->config.guest_command[0] ? run_guest(s, "detach") : 0;

	if (ret == NOT_YET) {
		again(s, "the guest has not let go of its function");
	} else if (ret) {
		s->event = EVENT_REFUSED;
		because(s, "%s detach: status %d", s->d->config.guest_command, ret);
	}
}

/* ---- threads ---- */

static void work(void *arg)
{
	static void (*const steps[])(struct step *) = {
		[STEP_WATCH] = step_watch,   [STEP_ASK] = step_ask,
		[STEP_DETACH] = step_detach, [STEP_CLEAR] = step_clear,
		[STEP_ABSENT] = step_absent, [STEP_HAND] = step_hand,
		[STEP_LOOK] = step_look,     [STEP_SET] = step_set,
		[STEP_ATTACH] = step_attach, [STEP_PRESENT] = step_present,
	};
	struct step *s = arg;

	s->event = EVENT_DONE;
	steps[s->what](s);
}

static void done(void *arg)
{
	struct step *s = arg;

	s->task = NULL;
	guest_stepped(s->d, s);
	free(s);
}

int step_start(struct lidtrackd *d, struct guest *guest)
{
	struct step *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	s->d = d;
	s->guid = guest->r.guid;
	s->version = guest->version;
	s->waited = clock_ms() - guest->since;
	s->what = move_step_of(guest->r.state);
	s->r = guest->r;
	for (int i = 0; i < FUNCTION_MAX && s->what == STEP_SET; i++)
		s->promised[i] = guest_waits_for(d, i, s->guid);
	memcpy(s->rival, guest->rival, sizeof(s->rival));
	ret = task_start(d->loop.base, &s->task, work, done, s);
	if (ret) {
		free(s);
		return ret;
	}
	guest->step = s;
	guest->rival[0] = '\0'; /* another one may be named meanwhile */
	return 0;
}

void step_drop(struct step *s)
{
	task_finish(s->task);
	free(s);
}
