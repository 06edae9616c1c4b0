// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Lines over unix sockets and TLS. GnuTLS's own functions wait; the limits are the sockets'. A link
 * is its thread's.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <gnutls/x509.h>

#include "daemons/common/clock.h"
#include "daemons/common/log.h"
#include "daemons/common/socket_path.h"
#include "daemons/lidtrackd/link.h"

/* ---- who this is ---- */

struct link_credentials {
	gnutls_certificate_credentials_t tls;
	unsigned uses; /* by the identity, and by links */
};

/* Under identity->lock; NULL is nobody's. */
static void put_credentials(struct link_credentials *c)
{
	if (!c || --c->uses)
		return;
	gnutls_certificate_free_credentials(c->tls);
	free(c);
}

static void replace_credentials(struct link_identity *identity, struct link_credentials *c)
{
	pthread_mutex_lock(&identity->lock);
	put_credentials(identity->credentials);
	identity->credentials = c;
	pthread_mutex_unlock(&identity->lock);
}

void link_identity_init(struct link_identity *identity)
{
	pthread_mutex_init(&identity->lock, NULL);
	identity->credentials = NULL;
}

int link_identity_load(struct link_identity *identity, const char *ca, const char *certificate,
		       const char *key)
{
	struct link_credentials *fresh;
	gnutls_certificate_credentials_t c;
	int ret;

	if (!*ca && !*certificate && !*key)
		return 0;
	if (gnutls_certificate_allocate_credentials(&c))
		return -ENOMEM;
	ret = gnutls_certificate_set_x509_trust_file(c, ca, GNUTLS_X509_FMT_PEM);
	if (ret <= 0) {
		log_error("tls_ca %s: %s", ca, ret ? gnutls_strerror(ret) : "no certificate");
		gnutls_certificate_free_credentials(c);
		return -EINVAL;
	}
	ret = gnutls_certificate_set_x509_key_file(c, certificate, key, GNUTLS_X509_FMT_PEM);
	if (ret < 0) {
		log_error("tls_certificate %s, tls_key %s: %s", certificate, key,
			  gnutls_strerror(ret));
		gnutls_certificate_free_credentials(c);
		return -EINVAL;
	}
	fresh = malloc(sizeof(*fresh));
	if (!fresh) {
		gnutls_certificate_free_credentials(c);
		return -ENOMEM;
	}
	*fresh = (struct link_credentials){.tls = c, .uses = 1};
	replace_credentials(identity, fresh);
	return 0;
}

void link_identity_free(struct link_identity *identity)
{
	replace_credentials(identity, NULL);
	pthread_mutex_destroy(&identity->lock);
}

/* ---- addresses ---- */

static int unix_address(const char *path, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address->sun_path))
		return -ENAMETOOLONG;
	strcpy(address->sun_path, path);
	return 0;
}

/* "host:port" or "[address]:port"; *found is to be freed. */
static int resolve(const char *address, bool passive, struct addrinfo **found)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				       .ai_flags = passive ? AI_PASSIVE : 0};
	char host[LINK_ADDRESS_LEN];
	const char *colon = strrchr(address, ':');
	char *name = host;
	size_t len;

	if (!colon || (size_t)(colon - address) >= sizeof(host))
		return -EINVAL;
	len = colon - address;
	memcpy(host, address, len);
	host[len] = '\0';
	if (*name == '[' && host[len - 1] == ']') {
		host[len - 1] = '\0';
		name++;
	}
	return getaddrinfo(*name ? name : NULL, colon + 1, &hints, found) ? -EADDRNOTAVAIL : 0;
}

static int listen_local(const char *path)
{
	struct sockaddr_un address;
	int ret = unix_address(path, &address), fd;
	mode_t before;

	if (!ret)
		ret = socket_path_take(&address);
	if (ret)
		return ret;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	before = umask(0177);
	ret = bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 64) ? -errno : 0;
	umask(before);
	if (!ret)
		return fd;
	close(fd);
	return ret;
}

static int listen_remote(const char *where)
{
	const int on = 1;
	struct addrinfo *found;
	int ret = resolve(where, true, &found), fd;

	if (ret)
		return ret;
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	ret = fd < 0 ? -errno : 0;
	if (!ret && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
		     bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, 64)))
		ret = -errno;
	freeaddrinfo(found);
	if (!ret)
		return fd;
	if (fd >= 0)
		close(fd);
	return ret;
}

int link_listen(const char *address)
{
	return link_is_local(address) ? listen_local(address) : listen_remote(address);
}

/* ---- TLS ---- */

/* Of a certificate's verification. */
static int certificate_error(unsigned status)
{
	if (status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED))
		return -EKEYEXPIRED;
	return status & GNUTLS_CERT_UNEXPECTED_OWNER ? -EKEYREJECTED : -ENOTUNIQ;
}

/*
 * The peer may have sent already (a client of TLS 1.3 is done before the server has seen its
 * certificate). Closing with bytes unread would reset the connection, and the peer might lose the
 * alert: its bytes are read to their end.
 */
static void refuse(struct link *link, int error)
{
	uint64_t began = clock_ms();
	char bytes[1024];

	gnutls_alert_send_appropriate(link->tls, error);
	shutdown(link->fd, SHUT_WR);
	while (clock_ms() - began < LINK_TIMEOUT_MS && recv(link->fd, bytes, sizeof(bytes), 0) > 0)
		;
}

static struct link_credentials *get_credentials(struct link_identity *identity)
{
	struct link_credentials *c;

	pthread_mutex_lock(&identity->lock);
	c = identity->credentials;
	if (c)
		c->uses++;
	pthread_mutex_unlock(&identity->lock);
	return c;
}

static int start_tls(struct link *link, struct link_identity *identity, unsigned side,
		     const char *host)
{
	int ret;

	link->identity = identity;
	link->credentials = get_credentials(identity);
	if (!link->credentials)
		return -ENOKEY;
	if (gnutls_init(&link->tls, side | GNUTLS_NO_SIGNAL))
		return -ENOMEM;
	gnutls_set_default_priority(link->tls);
	gnutls_credentials_set(link->tls, GNUTLS_CRD_CERTIFICATE, link->credentials->tls);
	if (side == GNUTLS_SERVER)
		gnutls_certificate_server_set_request(link->tls, GNUTLS_CERT_REQUIRE);
	gnutls_session_set_verify_cert(link->tls, host, 0);
	gnutls_transport_set_int(link->tls, link->fd);
	gnutls_handshake_set_timeout(link->tls, LINK_TIMEOUT_MS);
	do {
		ret = gnutls_handshake(link->tls);
	} while (ret == GNUTLS_E_INTERRUPTED);
	if (!ret)
		return 0;
	if (ret == GNUTLS_E_TIMEDOUT || ret == GNUTLS_E_AGAIN)
		return -ETIMEDOUT;
	if (ret != GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
		return -EPROTO;
	refuse(link, ret);
	return certificate_error(gnutls_session_get_verify_cert_status(link->tls));
}

const char *link_strerror(int error)
{
	switch (-error) {
	case EKEYEXPIRED:
		return "its certificate has expired or is not valid yet, by this host's clock";
	case EKEYREJECTED: return "its certificate is another's";
	case ENOTUNIQ: return "its certificate is not one of tls_ca";
	case EACCES: return "it does not accept this host's certificate, see its log";
	case EPROTO: return "it does not speak as this version of lidtrackd does, or not TLS";
	default: return strerror(-error);
	}
}

bool link_is_from(const struct link *link, const char *host)
{
	unsigned count;
	const gnutls_datum_t *chain;
	gnutls_x509_crt_t certificate;
	bool is = false;

	if (!link->tls)
		return true;
	chain = gnutls_certificate_get_peers(link->tls, &count);
	if (!chain || !count || gnutls_x509_crt_init(&certificate))
		return false;
	if (!gnutls_x509_crt_import(certificate, chain, GNUTLS_X509_FMT_DER))
		is = gnutls_x509_crt_check_hostname(certificate, host);
	gnutls_x509_crt_deinit(certificate);
	return is;
}

/* ---- links ---- */

static void limit(int fd)
{
	const struct timeval time = {.tv_sec = LINK_TIMEOUT_MS / 1000,
				     .tv_usec = LINK_TIMEOUT_MS % 1000 * 1000};

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time));
}

/* SO_SNDTIMEO limits connect(2), too. */
static int connect_fd(int family, const struct sockaddr *address, socklen_t len)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), ret;

	if (fd < 0)
		return -errno;
	limit(fd);
	if (!connect(fd, address, len))
		return fd;
	ret = errno == EINPROGRESS || errno == EAGAIN ? -ETIMEDOUT : -errno;
	close(fd);
	return ret;
}

static int connect_remote(const char *where)
{
	struct addrinfo *found;
	int ret = resolve(where, false, &found);

	if (ret)
		return ret;
	ret = -EADDRNOTAVAIL;
	for (struct addrinfo *a = found; a && ret < 0; a = a->ai_next)
		ret = connect_fd(a->ai_family, a->ai_addr, a->ai_addrlen);
	freeaddrinfo(found);
	return ret;
}

static int connect_local(const char *path)
{
	struct sockaddr_un address;
	int ret = unix_address(path, &address);

	return ret ? ret : connect_fd(AF_UNIX, (struct sockaddr *)&address, sizeof(address));
}

int link_connect(struct link *link, struct link_identity *identity, const char *host,
		 const char *address)
{
	bool local = link_is_local(address);
	int ret;

	memset(link, 0, sizeof(*link));
	link->fd = local ? connect_local(address) : connect_remote(address);
	if (link->fd < 0)
		return link->fd;
	ret = local ? 0 : start_tls(link, identity, GNUTLS_CLIENT, host);
	if (ret)
		link_close(link);
	return ret;
}

int link_accept(struct link *link, struct link_identity *identity, int fd, bool local)
{
	int flags = fcntl(fd, F_GETFL), ret = 0;

	memset(link, 0, sizeof(*link));
	link->fd = fd;
	fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	limit(fd);
	if (!local)
		ret = start_tls(link, identity, GNUTLS_SERVER, NULL);
	if (ret)
		link_close(link);
	return ret;
}

static ssize_t send_some(struct link *link, const char *bytes, size_t len)
{
	ssize_t n;

	do {
		n = link->tls ? gnutls_record_send(link->tls, bytes, len)
			      : send(link->fd, bytes, len, MSG_NOSIGNAL);
	} while (link->tls ? n == GNUTLS_E_INTERRUPTED : n < 0 && errno == EINTR);
	return n;
}

static int send_all(struct link *link, const char *bytes, size_t len)
{
	while (len) {
		ssize_t n = send_some(link, bytes, len);

		if (n <= 0)
			return -EIO;
		bytes += n;
		len -= n;
	}
	return 0;
}

int link_send(struct link *link, const char *line, size_t len)
{
	char copy[4096];

	if (len >= sizeof(copy))
		return -EMSGSIZE;
	memcpy(copy, line, len);
	copy[len] = '\n';
	return send_all(link, copy, len + 1);
}

static ssize_t receive_some(struct link *link)
{
	char *to = link->buffer + link->have;
	size_t room = sizeof(link->buffer) - link->have;
	ssize_t n;

	do {
		n = link->tls ? gnutls_record_recv(link->tls, to, room)
			      : recv(link->fd, to, room, 0);
	} while (link->tls ? n == GNUTLS_E_INTERRUPTED : n < 0 && errno == EINTR);
	if (n > 0)
		link->have += n;
	return n;
}

int link_receive(struct link *link, char *line, size_t room)
{
	uint64_t began = clock_ms();
	char *eol;
	size_t len;

	while (!(eol = memchr(link->buffer, '\n', link->have))) {
		ssize_t n;

		if (link->have == sizeof(link->buffer))
			return -EMSGSIZE;
		if (clock_ms() - began > LINK_TIMEOUT_MS)
			return -ETIMEDOUT;
		n = receive_some(link);
		if (n <= 0)
			return !n						 ? -ECONNRESET
			       : link->tls && n == GNUTLS_E_FATAL_ALERT_RECEIVED ? -EACCES
										 : -ETIMEDOUT;
	}
	len = eol - link->buffer;
	if (len >= room)
		return -EMSGSIZE;
	memcpy(line, link->buffer, len);
	line[len] = '\0';
	link->have -= len + 1;
	memmove(link->buffer, eol + 1, link->have);
	return (int)len;
}

bool link_is_closed(const struct link *link)
{
	char byte;

	return recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void link_close(struct link *link)
{
	if (link->tls)
		gnutls_deinit(link->tls);
	if (link->credentials) {
		pthread_mutex_lock(&link->identity->lock);
		put_credentials(link->credentials);
		pthread_mutex_unlock(&link->identity->lock);
	}
	link->credentials = NULL;
	if (link->fd >= 0)
		close(link->fd);
	link->tls = NULL;
	link->fd = -1;
}
