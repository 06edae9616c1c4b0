// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Names of hosts: on a host of a fabric, getaddrinfo() knows the others by the names that `urxe
 * fabric show` lists, and gives the address of their first port (fabric/ip.h). Where IPoIB has the
 * same addresses in another net, URXE_HOST_NET says which (`urxe ipoib`). Whatever else is asked
 * goes to libc. Any thread.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>

#include "fabric/ip.h"
#include "fabric/names.h"
#include "host/fabric.h"
#include "preload/preload.h"

typedef int getaddrinfo_fn(const char *name, const char *service, const struct addrinfo *hints,
			   struct addrinfo **found);

/* The address of a host of the fabric, as a text; false: no host is called that. */
static bool find(const char *name, char text[INET_ADDRSTRLEN])
{
	const struct urxe_fabric_host *own = urxe_fabric_host();
	uint32_t adapters[FABRIC_HOST_ADAPTERS];
	char error[256];
	struct in_addr ip = {0}, net;

	if (!own ||
	    names_host(own->map, name, adapters, FABRIC_HOST_ADAPTERS, error, sizeof(error)) < 1)
		return false;
	ip.s_addr = htobe32(fabric_ip_of_port(
		own->map, fabric_map_node(own->map, adapters[0])->first_port + 1));
	if (ip.s_addr && getenv("URXE_HOST_NET") &&
	    inet_pton(AF_INET, getenv("URXE_HOST_NET"), &net) == 1)
		ip.s_addr = (net.s_addr & htobe32(0xffff0000)) | (ip.s_addr & htobe32(0xffff));
	return ip.s_addr && inet_ntop(AF_INET, &ip, text, INET_ADDRSTRLEN);
}

URXE_EXPORT int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
			    struct addrinfo **found)
{
	static _Atomic(getaddrinfo_fn *) behind;
	getaddrinfo_fn *next = behind;
	char text[INET_ADDRSTRLEN];
	int saved = errno;

	if (!next)
		behind = next = urxe_libc_next("getaddrinfo");
	if (name && urxe_fabric_wanted() && !(hints && hints->ai_flags & AI_NUMERICHOST) &&
	    find(name, text))
		name = text;
	errno = saved;
	return next(name, service, hints, found);
}
