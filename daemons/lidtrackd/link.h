/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A connection between two agents, over which lines go: a unix socket of mode 0600 on one machine,
 * TLS with certificates of both sides else. All calls wait, for at most twice LINK_TIMEOUT_MS each;
 * one thread for each link.
 */
#ifndef LIDTRACKD_LINK_H
#define LIDTRACKD_LINK_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <gnutls/gnutls.h>

#define LINK_TIMEOUT_MS	 3000
#define LINK_ADDRESS_LEN 108

/* Of one reading of the files; gone with the last link that was begun with it. */
struct link_credentials;

/* What this agent proves itself by, and others to it. */
struct link_identity {
	pthread_mutex_t lock;
	struct link_credentials *credentials; /* NULL: there are no files, so no TLS */
};

struct link {
	int fd;
	gnutls_session_t tls; /* NULL: a unix socket */
	struct link_identity *identity;
	struct link_credentials *credentials;
	char buffer[4096]; /* read, and not yet taken */
	size_t have;
};

void link_identity_init(struct link_identity *identity);
/* Of PEM files; "" for all of them: no TLS. -errno after a line in the log;
 * what was read before stays. */
int link_identity_load(struct link_identity *identity, const char *ca, const char *certificate,
		       const char *key);
void link_identity_free(struct link_identity *identity);

/* "/path" is a unix socket, "host:port" or "[address]:port" is not. */
static inline bool link_is_local(const char *address)
{
	return address[0] == '/';
}

/* A listening socket, not blocking, close-on-exec. -errno. */
int link_listen(const char *address);
/*
 * To an agent that proves to be that host. -errno, which link_strerror() knows; of its certificate:
 * -EKEYEXPIRED (now is not within its time), -EKEYREJECTED (it is another host's), -ENOTUNIQ (it is
 * not of tls_ca).
 */
int link_connect(struct link *link, struct link_identity *identity, const char *host,
		 const char *address);
/* Takes over an accepted descriptor. */
int link_accept(struct link *link, struct link_identity *identity, int fd, bool local);
/* Is the other end that host, by its certificate? Those of a unix socket are this user's processes.
 * */
bool link_is_from(const struct link *link, const char *host);
/* A line without its end. */
int link_send(struct link *link, const char *line, size_t len);
/* The next one; its length, or -errno: -EMSGSIZE for one that does not fit, -ECONNRESET at the end,
 * -EACCES: the other end does not accept this host's certificate. */
int link_receive(struct link *link, char *line, size_t room);
const char *link_strerror(int error);
/* The other end has closed it: nobody waits for an answer. */
bool link_is_closed(const struct link *link);
void link_close(struct link *link);

#endif
