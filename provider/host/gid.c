// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * GIDs from addresses, and GUIDs from MACs. No state; the callers in device.c hold its locks.
 */
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/outer_user.h"
#include "host/address.h"
#include "host/gid.h"
#include "host/log.h"
#include "host/siphash.h"
#include "host/sysinfo.h"

enum gid_kind { LINK_LOCAL, MAPPED, OTHER, NUM_KINDS };

static enum gid_kind kind_of(const struct in6_addr *addr)
{
	if (IN6_IS_ADDR_LINKLOCAL(addr))
		return LINK_LOCAL;
	return urxe_is_ipv4(addr) ? MAPPED : OTHER;
}

static bool has_address(const struct urxe_netaddr *addrs, unsigned num, unsigned ifindex,
			const union ibv_gid *gid)
{
	for (unsigned i = 0; i < num; i++)
		if (addrs[i].ifindex == ifindex && !addrs[i].tentative &&
		    !memcmp(&addrs[i].addr, gid, sizeof(*gid)))
			return true;
	return false;
}

static bool drop_gone(union ibv_gid *gids, unsigned gid_len, const struct urxe_netaddr *addrs,
		      unsigned num, unsigned ifindex)
{
	bool changed = false;

	for (unsigned i = 0; i < gid_len; i++) {
		if (urxe_gid_is_empty(&gids[i]) || has_address(addrs, num, ifindex, &gids[i]))
			continue;
		memset(&gids[i], 0, sizeof(gids[i]));
		changed = true;
	}
	return changed;
}

/* Puts an address into the lowest free slot from `first` on, unless it has one. */
static bool add_address(union ibv_gid *gids, unsigned *gid_len, const struct in6_addr *addr,
			unsigned first)
{
	unsigned slot = URXE_MAX_GIDS;

	for (unsigned i = URXE_MAX_GIDS; i-- > 0;) {
		if (!memcmp(&gids[i], addr, sizeof(*addr)))
			return false;
		if (i >= first && urxe_gid_is_empty(&gids[i]))
			slot = i;
	}
	if (slot == URXE_MAX_GIDS) {
		urxe_log(URXE_LOG_WARN,
			 "a netdev has more than %d addresses: "
			 "the others get no GID",
			 URXE_MAX_GIDS);
		return false;
	}
	memcpy(&gids[slot], addr, sizeof(gids[slot]));
	if (slot >= *gid_len)
		*gid_len = slot + 1;
	return true;
}

static bool link_local_to_come(const struct urxe_netaddr *addrs, unsigned num, unsigned ifindex)
{
	for (unsigned i = 0; i < num; i++)
		if (addrs[i].ifindex == ifindex && addrs[i].tentative &&
		    kind_of(&addrs[i].addr) == LINK_LOCAL)
			return true;
	return false;
}

/* Its first GID once more, where the link-local one would be. */
static bool fill_first(union ibv_gid *gids, unsigned gid_len)
{
	for (unsigned i = 1; i < gid_len; i++)
		if (!urxe_gid_is_empty(&gids[i])) {
			gids[0] = gids[i];
			return true;
		}
	return false;
}

bool urxe_gid_table_update(union ibv_gid gids[URXE_MAX_GIDS], unsigned *gid_len,
			   const struct urxe_netaddr *addrs, unsigned num_addrs, unsigned ifindex)
{
	bool changed = drop_gone(gids, *gid_len, addrs, num_addrs, ifindex);
	bool to_come = urxe_gid_is_empty(&gids[0]) && link_local_to_come(addrs, num_addrs, ifindex);

	for (enum gid_kind kind = 0; kind < NUM_KINDS; kind++)
		for (unsigned i = 0; i < num_addrs; i++)
			if (addrs[i].ifindex == ifindex && !addrs[i].tentative &&
			    kind_of(&addrs[i].addr) == kind)
				changed |= add_address(gids, gid_len, &addrs[i].addr, to_come);
	if (to_come)
		changed |= fill_first(gids, *gid_len);
	return changed;
}

uint64_t urxe_guid_of_mac(const uint8_t mac[6])
{
	const uint8_t eui[8] = {mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
	uint64_t guid;

	memcpy(&guid, eui, sizeof(guid));
	return guid;
}

uint64_t urxe_guid_of_host(const char *netdev)
{
	static const uint64_t key[2] = {0x75727865206c6f20, 0x6775696420763120};
	char id[64], text[256];
	uint64_t hash;
	ssize_t len;

	/* Containers often have an empty machine-id. */
	len = urxe_read_file("/etc/machine-id", id, sizeof(id));
	if (len < 32)
		len = urxe_read_file("/proc/sys/kernel/random/boot_id", id, sizeof(id));
	if (len < 0)
		id[0] = '\0';
	len = snprintf(text, sizeof(text), "%s %u %llu %s", id, (unsigned)outer_user(),
		       (unsigned long long)urxe_netns_inode(), netdev);
	hash = urxe_siphash(key, text, len);
	return htobe64((hash & ~(3ULL << 56)) | 2ULL << 56);
}
