/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * lidtrackd: the agent of a host, which moves vGUIDs by the table of migrate/move.h.
 *
 *	reconcile.c	guests: what the table says comes next, the journal, orders
 *	step.c		the steps themselves, each in a thread of its own, since all of them wait
 *	peer.c		requests to other agents; server.c: those of others
 *	link.c		connections
 *	follower.c	a standby SM's guid2lid is kept as the master's
 *	tracker.c	shared-port: LIDs of hosts by where guests are, and how OpenSM gets to know
 *	libvirt.c	vGUIDs follow libvirt's domains; libvirt_watch.c: where these run
 *	commands.c	what lidtrackctl asks for
 *
 * Everything belongs to the loop's thread, but for what a struct step has, and what is said to be
 * constant.
 */
#ifndef LIDTRACKD_H
#define LIDTRACKD_H

#include <stdbool.h>
#include <stdint.h>

#include <event2/event.h>

#include "daemons/common/config_file.h"
#include "daemons/common/control.h"
#include "daemons/common/loop.h"
#include "daemons/common/metrics.h"
#include "daemons/common/notify.h"
#include "daemons/common/task.h"
#include "daemons/lidtrackd/link.h"
#include "migrate/function.h"
#include "migrate/journal.h"
#include "migrate/message.h"
#include "migrate/sa.h"

#define MAX_PEERS  64
#define REASON_LEN MESSAGE_REASON_LEN

struct peer {
	char host[RECORD_NAME_LEN];
	char address[LINK_ADDRESS_LEN];
};

enum lidtrackd_mode { MODE_OWN, MODE_SHARED_PORT };
enum lidtrackd_apply { APPLY_PLUGIN, APPLY_HANDOVER, APPLY_RESTART };

struct lidtrackd_config {
	char host[RECORD_NAME_LEN];
	int mode;
	char journal[256];
	char functions[160]; /* kind and where */
	char listen[LINK_ADDRESS_LEN];
	char tls_ca[256], tls_certificate[256], tls_key[256];
	struct peer peers[MAX_PEERS];
	unsigned num_peers;
	uint64_t pool_first, pool_count;
	char ca_name[32];
	uint64_t port;
	uint64_t sm_key;
	char guest_command[256];
	char libvirt[256]; /* URI; "": guests are not its domains */
	/* shared-port: the host that tells the SM, and how. */
	char tracker[RECORD_NAME_LEN];
	char guid2lid[256], lids[256], restart_command[256];
	int apply;
	uint64_t floating_from, gather;
	char follow[RECORD_NAME_LEN]; /* the agent beside the master SM; "": none */
	uint64_t follow_every;	      /* ms */
	uint64_t retry;		      /* ms between two tries of a step */
	uint64_t watch;		      /* ms between two looks at what is in its place */
	char control_socket[100], control_group[32], metrics_listen[64];
	int log_level;
};

struct lidtrackd_counts {
	uint64_t moved_in, moved_out, returned, refused, lid_changed;
	uint64_t follows, follow_errors, libvirt_orders;
	uint64_t steps, retries, journal_errors, requests, bad_requests;
};

struct step;

/* A vGUID that this host knows of; what is in the journal is r. */
struct guest {
	struct guest *next;
	struct lidtrackd *d;
	struct record r;
	unsigned version;	     /* one more at each change of r */
	struct step *step;	     /* under way */
	struct event *timer;	     /* the next step */
	unsigned tries;		     /* of the step */
	uint64_t since;		     /* when it came into its state */
	uint64_t give_up;	     /* ms: how long asking may take */
	uint64_t away_since;	     /* ms: since when it has no function */
	char rival[RECORD_NAME_LEN]; /* whose agent says that it has a later record; "" */
	char reason[REASON_LEN];     /* why it does not go on, or did not go */
};

struct lidtrackd {
	struct loop loop;
	struct lidtrackd_config config;
	const struct function_provider *provider;
	char kind[160]; /* of its functions, and where; provider and where are of it */
	const char *where;
	struct notify *notify;
	struct control *control;
	struct metrics *metrics;
	struct journal journal;
	int journal_error; /* of the last try to write it or to reserve room: -errno */
	struct guest *guests;
	struct link_identity identity;
	struct sa sa;
	pthread_mutex_t functions; /* held to choose one and set it */
	struct evconnlistener *listener;
	struct conversation *conversations;
	unsigned num_conversations;
	struct job *jobs;
	struct follower *follower;
	struct libvirt *libvirt; /* NULL: guests are not its domains */
	struct tracker *tracker; /* NULL: this agent is not */
	bool ending;
	unsigned functions_used; /* one more whenever a function has got a GUID */
	struct lidtrackd_counts counts;
};

extern const struct config_table lidtrackd_config_table;
void lidtrackd_config_init(struct lidtrackd_config *config);
/* What the table cannot say. -EINVAL after a line in the log. */
int lidtrackd_config_check(struct lidtrackd *d);
/* NULL: no such peer. Constant. */
const struct peer *peer_of(const struct lidtrackd *d, const char *host);

/* ---- reconcile.c ---- */

int reconcile_start(struct lidtrackd *d);
void reconcile_stop(struct lidtrackd *d);
struct guest *guest_find(struct lidtrackd *d, uint64_t guid);
struct guest *guest_named(struct lidtrackd *d, const char *name);
/* A new record, which is put down first. -errno. */
int guest_add(struct lidtrackd *d, const struct record *record);
/* Can the journal take one move more? -errno. Not before that may a move touch anything. */
int journal_ready(struct lidtrackd *d);
/* Opens a journal. -errno after a line in the log. */
int journal_begin(struct journal *journal, const char *path);
/* Another record in the place of a guest's. */
int guest_replace(struct lidtrackd *d, struct guest *guest, const struct record *record);
/*
 * An event for a guest: what the table says is put down and gone on with. peer: of an order; NULL
 * elsewhere. -EINVAL: the event means nothing in its state; another -errno: it could not be put
 * down, and nothing has changed.
 */
int guest_event(struct lidtrackd *d, struct guest *guest, enum move_event event, const char *peer);
/* Another agent has said what it knows of the guest: if that is later, it is asked about it. */
void guest_said(struct guest *guest, const struct request *request);
/* Never 0. */
uint64_t fence_number(void);
/* The step is done: step->event, or again later. */
void guest_stepped(struct lidtrackd *d, struct step *step);
/* An order to move, of lidtrackctl's or another agent's. wanted: the function of the destination;
 * -1: any. -errno and a reason. */
int guest_order(struct lidtrackd *d, struct guest *guest, const char *to, int wanted,
		uint64_t wait_ms, char reason[REASON_LEN]);
/* How many functions are promised to guests that have none yet. */
unsigned guests_reserved(const struct lidtrackd *d, uint64_t but);
/* Is that function promised to a guest that has none yet, and is not that one? */
bool guest_waits_for(const struct lidtrackd *d, int function, uint64_t but);
/* A guest that stays here and is not that one; NULL. */
const struct guest *guest_that_stays(const struct lidtrackd *d, uint64_t but);

/* ---- step.c ---- */

/* One try of a step: its own copy of all that it needs. */
struct step {
	struct lidtrackd *d;
	struct task *task;
	uint64_t guid;
	unsigned version;
	enum move_step what;
	uint64_t waited;	     /* ms that the guest has been in its state */
	char rival[RECORD_NAME_LEN]; /* comes back, too */
	struct record r;	     /* function, lid, lmc, peer and fence come back */
	bool promised[FUNCTION_MAX]; /* functions that others wait for */
	bool again;		     /* neither done nor refused */
	enum move_event event;
	char reason[REASON_LEN];
};

int step_start(struct lidtrackd *d, struct guest *guest);
/* Waits for its end and drops what it found. */
void step_drop(struct step *step);
/* Of a function that does not have a GUID and is not held; *count of all that are. -errno. Any
 * thread. */
int functions_free(struct lidtrackd *d, unsigned *count);
/* Is that one of them? Any thread. */
bool function_is_free(struct lidtrackd *d, int number);

/* ---- peer.c ---- */

/* Asks another agent, and waits. -errno: there is no answer. Any thread. */
int peer_ask(struct lidtrackd *d, const char *host, enum message_verb verb,
	     const struct record *record, const char *to, struct answer *answer);
/* All that another agent has, of guests (MESSAGE_LIST) or LIDs (MESSAGE_LIDS); each(arg) for each.
 * Any thread. */
int peer_list(struct lidtrackd *d, const char *host, enum message_verb verb,
	      void (*each)(void *arg, const struct record *record, const char *reason), void *arg);

/* The same of all other agents at once: each() is called by one thread at a time. silent: those
 * that do not answer, MAX_PEERS at most; how many. */
unsigned peer_list_all(struct lidtrackd *d,
		       void (*each)(void *arg, const char *host, const struct record *record,
				    const char *reason),
		       void *arg, const char **silent);

/* ---- server.c ---- */

int server_start(struct lidtrackd *d);
void server_stop(struct lidtrackd *d);

/* ---- tracker.c ---- */

int tracker_start(struct lidtrackd *d);
void tracker_stop(struct lidtrackd *d);
/* A guest is at the port that the request's record says, or at none. */
void tracker_place(struct lidtrackd *d, const struct request *request, struct answer *answer);

/* ---- follower.c ---- */

int follower_start(struct lidtrackd *d);
void follower_stop(struct lidtrackd *d);

/* ---- libvirt.c ---- */

int libvirt_start(struct lidtrackd *d);
void libvirt_stop(struct lidtrackd *d);
/* Its domain runs here, or that is not known: its vGUID stays. */
bool libvirt_keeps(struct lidtrackd *d, const char *guest);

/* ---- commands.c ---- */

int commands_start(struct lidtrackd *d);
void commands_stop(struct lidtrackd *d);

#endif
