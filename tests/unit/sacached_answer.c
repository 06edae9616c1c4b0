/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What sacached answers to ibacm's messages: ports, addresses, the table and libsacache's queries
 * are this test's. Two ports: the first has GID fe80::1, LID 4 and LMC 1, the second fec0::1:1, LID
 * 9 and two partitions.
 */
#include "sacache_test.h"

#include <arpa/inet.h>

#include "daemons/sacached/acm_answer.h"
#include "daemons/sacached/addresses.h"

static struct sacached d;
static struct acm_stats stats;
static struct acm_work work;
static uint8_t out[ACM_MAX_ANSWER];

/* The table: one answer for keys without and one for keys with a partition. */
static int answer_of_table, answer_with_pkey;
static uint16_t pkey_of_table, partition_of_source, record_pkey;
static unsigned lookups, queries;
static struct sacache_key last_key;

int __wrap_sacache_lookup(struct sacache *cache, const struct sacache_key *key,
			  struct sacache_path *path);
int __wrap_sacache_lookup(struct sacache *cache, const struct sacache_key *key,
			  struct sacache_path *path)
{
	bool with = key->mask & SACACHE_PKEY;

	lookups++;
	last_key = *key;
	memset(path, 0, sizeof(*path));
	path->pkey = with ? key->pkey : pkey_of_table;
	path->mtu = 4;
	path->dlid = 7;
	return with ? answer_with_pkey : answer_of_table;
}

int __wrap_sacache_query(struct sacache *cache, const struct sacache_key *key,
			 struct sacache_path *path, sacache_done done, void *arg);
int __wrap_sacache_query(struct sacache *cache, const struct sacache_key *key,
			 struct sacache_path *path, sacache_done done, void *arg)
{
	queries++;
	return -EINPROGRESS;
}

/* 10.0.0.1 is the first port's, 10.0.0.N has GID fe80::N, but for 10.0.0.99, which nobody knows. */
const struct sacached_port *__wrap_addresses_port(struct addresses *addresses,
						  const struct in6_addr *ip, uint16_t *pkey);
const struct sacached_port *__wrap_addresses_port(struct addresses *addresses,
						  const struct in6_addr *ip, uint16_t *pkey)
{
	*pkey = partition_of_source;
	return ip->s6_addr[12] == 10 && ip->s6_addr[15] == 1 ? &d.ports[0] : NULL;
}

int __wrap_addresses_gid(struct addresses *addresses, const struct in6_addr *ip, uint8_t gid[16]);
int __wrap_addresses_gid(struct addresses *addresses, const struct in6_addr *ip, uint8_t gid[16])
{
	test_gid(ip->s6_addr[15], gid);
	return ip->s6_addr[15] == 99 ? -ENODATA : 0;
}

int __wrap_addresses_source(const struct in6_addr *destination, struct in6_addr *source);
int __wrap_addresses_source(const struct in6_addr *destination, struct in6_addr *source)
{
	*source = *destination;
	source->s6_addr[15] = 1;
	return destination->s6_addr[15] == 77 ? -ENETUNREACH : 0;
}

/* 10.0.0.1 again, in the default partition. */
const struct local_address *__wrap_addresses_local(struct addresses *addresses,
						   const uint8_t gid[16], uint16_t pkey,
						   unsigned n);
const struct local_address *__wrap_addresses_local(struct addresses *addresses,
						   const uint8_t gid[16], uint16_t pkey, unsigned n)
{
	static const struct local_address local = {
		.ip.s6_addr = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};

	return gid == d.ports[0].gids[0] && pkey == 0xffff && !n ? &local : NULL;
}

static int set_up(void **state)
{
	d = (struct sacached){.nports = 3};
	for (unsigned i = 0; i < 3; i += 2) {
		struct sacached_port *port = &d.ports[i];

		*port = (struct sacached_port){
			.open = true, .active = true, .number = i, .ngids = 1};
		port->portnum = port->port_count = 1;
		port->pkeys[0] = 0xffff;
		port->pkeys[1] = 0x8001;
		port->npkeys = 1 + i / 2;
		port->lid = i ? 9 : 4;
		port->lmc = !i;
	}
	inet_pton(AF_INET6, "fe80::1", d.ports[0].gids[0]);
	inet_pton(AF_INET6, "fec0::1:1", d.ports[2].gids[0]);
	stats = (struct acm_stats){.clients = 0};
	answer_of_table = answer_with_pkey = 0;
	pkey_of_table = 0xffff;
	partition_of_source = record_pkey = lookups = queries = 0;
	return 0;
}

static void add(uint8_t *message, uint32_t flags, uint16_t type, const char *text)
{
	uint16_t length;
	uint8_t *entry;

	memcpy(&length, message + 6, 2);
	entry = message + length;
	length += ACM_ENTRY_SIZE;
	memcpy(message + 6, &length, 2);
	memcpy(entry, &flags, 4);
	memcpy(entry + 4, &type, 2);
	if (type == ACM_NAME)
		strcpy((char *)entry + 8, text);
	else if (type == ACM_LID)
		entry[9] = atoi(text);
	else
		assert_int_equal(inet_pton(type == ACM_IP ? AF_INET : AF_INET6, text, entry + 8),
				 1);
}

enum { SOURCE = 1, DEST = 2, NODELAY = 1 << 30 };

/* Asks from source (NULL: none) to destination; the answer's status, or -1: the SA has to be asked.
 * */
static int ask(uint16_t type, const char *source, const char *destination, uint32_t flags)
{
	uint8_t message[ACM_MAX_REQUEST] = {1, 1, [6] = ACM_HEADER_SIZE};
	uint16_t length;

	if (source)
		add(message, SOURCE, type, source);
	add(message, DEST | flags, type, destination);
	memcpy(&length, message + 6, 2);
	return acm_begin(&d, &stats, message, length, &work, out) ? out[2] : -1;
}

/* A record of DGID, SGID and LIDs, each NULL or 0: wild. */
static int ask_record(const char *dgid, const char *sgid, uint8_t dlid, uint8_t slid)
{
	uint8_t message[ACM_HEADER_SIZE + ACM_ENTRY_SIZE] = {1, 1, [6] = sizeof(message)};
	uint8_t *record = message + ACM_HEADER_SIZE + 8;

	message[ACM_HEADER_SIZE + 4] = ACM_PATH;
	if (dgid)
		inet_pton(AF_INET6, dgid, record + 8);
	if (sgid)
		inet_pton(AF_INET6, sgid, record + 24);
	record[41] = dlid;
	record[43] = slid;
	record[50] = record_pkey >> 8;
	record[51] = record_pkey;
	return acm_begin(&d, &stats, message, sizeof(message), &work, out) ? out[2] : -1;
}

static void what_the_table_has_is_answered_at_once(void **state)
{
	assert_int_equal(ask(ACM_IP, "10.0.0.1", "10.0.0.2", 0), ACM_SUCCESS);
	assert_int_equal(last_key.mask, SACACHE_SGID | SACACHE_DGID);
	assert_int_equal(last_key.dgid[15], 2);
	assert_int_equal(last_key.sgid[15], 1);
	assert_int_equal(stats.count[ACM_COUNT_RESOLVE], 1);
	assert_int_equal(stats.count[ACM_COUNT_ADDR_CACHE], 1);
	assert_int_equal(stats.count[ACM_COUNT_ROUTE_CACHE], 1);
	assert_int_equal(stats.of_port[0][ACM_COUNT_RESOLVE], 1);
	assert_int_equal(stats.of_port[2][ACM_COUNT_RESOLVE], 0);
	assert_int_equal(stats.count[ACM_COUNT_ADDR_QUERY], 0);
}

static void what_it_does_not_have_is_asked_for_or_enodata_without_delay(void **state)
{
	answer_of_table = -ENOENT;
	assert_int_equal(ask(ACM_IP, "10.0.0.1", "10.0.0.2", 0), -1);
	assert_int_equal(queries, 0);
	answer_of_table = -ESTALE;
	assert_int_equal(ask(ACM_IP, "10.0.0.1", "10.0.0.2", NODELAY), ACM_ENODATA);
	assert_int_equal(queries, 1);
	answer_of_table = -EHOSTUNREACH;
	assert_int_equal(ask(ACM_IP, "10.0.0.1", "10.0.0.2", 0), ACM_ENODATA);
	assert_int_equal(stats.count[ACM_COUNT_ROUTE_QUERY], 2);
	assert_int_equal(stats.count[ACM_COUNT_NODATA], 2);
}

static void a_path_of_another_partition_than_the_source_is_asked_for_with_its_own(void **state)
{
	struct sacache_path path = {.pkey = 0xffff};

	partition_of_source = 0x8001;
	assert_int_equal(ask(ACM_IP, "10.0.0.1", "10.0.0.2", 0), ACM_SUCCESS);
	assert_int_equal(lookups, 2);
	assert_int_equal(last_key.mask, SACACHE_SGID | SACACHE_DGID | SACACHE_PKEY);
	assert_int_equal(last_key.pkey, 0x8001);
	/* A limited member is in the same partition. */
	pkey_of_table = 0x0001;
	assert_int_equal(ask(ACM_IP, "10.0.0.1", "10.0.0.2", 0), ACM_SUCCESS);
	assert_int_equal(lookups, 3);
	/* When the SA has to be asked, it is, for both. */
	answer_of_table = answer_with_pkey = -ENOENT;
	assert_int_equal(ask(ACM_IP, "10.0.0.1", "10.0.0.2", 0), -1);
	assert_int_equal(work.key.mask, SACACHE_SGID | SACACHE_DGID);
	assert_int_equal(acm_continue(&d, &stats, &work, 0, &path, out), 0);
	assert_int_equal(work.key.mask, SACACHE_SGID | SACACHE_DGID | SACACHE_PKEY);
	path.pkey = 0x8001;
	assert_true(acm_continue(&d, &stats, &work, 0, &path, out) > 0);
	assert_int_equal(out[2], ACM_SUCCESS);
}

static void a_path_that_was_found_without_its_partition_serves_who_names_it(void **state)
{
	answer_with_pkey = -ENOENT;
	pkey_of_table = 0x8001;
	record_pkey = 0x0001;
	assert_int_equal(ask_record("fe80::2", NULL, 0, 0), ACM_SUCCESS);
	assert_int_equal(last_key.mask, SACACHE_SGID | SACACHE_DGID);
	record_pkey = 0x8002;
	assert_int_equal(ask_record("fe80::2", NULL, 0, 0), -1);
	assert_int_equal(work.key.mask, SACACHE_SGID | SACACHE_DGID | SACACHE_PKEY);
	/* One that is to be asked for again is. */
	answer_with_pkey = -ESTALE;
	record_pkey = 0x0001;
	assert_int_equal(ask_record("fe80::2", NULL, 0, 0), -1);
}

static void a_source_that_is_not_a_ports_is_esrcaddr(void **state)
{
	assert_int_equal(ask(ACM_IP, "192.168.0.1", "10.0.0.2", 0), ACM_ESRCADDR);
	assert_int_equal(ask(ACM_IP, "10.0.0.2", "10.0.0.3", 0), ACM_ESRCADDR);
	assert_int_equal(ask(ACM_GID, "fe80::9", "fe80::3", 0), ACM_ESRCADDR);
	assert_int_equal(ask(ACM_LID, "6", "7", 0), ACM_ESRCADDR);
	assert_int_equal(ask_record("fe80::2", "fe80::9", 0, 0), ACM_ESRCADDR);
	assert_int_equal(ask_record(NULL, NULL, 7, 6), ACM_ESRCADDR);
	assert_int_equal(ask_record("fd00::2", NULL, 0, 0), ACM_ESRCADDR);
	assert_int_equal(lookups, 0);
	d.ports[0].active = false;
	assert_int_equal(ask(ACM_GID, "fe80::1", "fe80::3", 0), ACM_ESRCADDR);
}

static void a_source_is_chosen_for_ip_addresses_and_told(void **state)
{
	assert_int_equal(ask(ACM_IP, NULL, "10.0.0.2", 0), ACM_SUCCESS);
	assert_int_equal(out[6], ACM_HEADER_SIZE + 2 * ACM_ENTRY_SIZE);
	assert_int_equal(out[ACM_HEADER_SIZE + ACM_ENTRY_SIZE], SOURCE);
	assert_memory_equal(out + ACM_HEADER_SIZE + ACM_ENTRY_SIZE + 8, "\x0a\0\0\1", 4);
	assert_int_equal(ask(ACM_IP, NULL, "10.0.0.77", 0), ACM_ESRCADDR);
	assert_int_equal(ask(ACM_GID, NULL, "fe80::2", 0), ACM_EDESTTYPE);
	assert_int_equal(ask(ACM_NAME, NULL, "peer", 0), ACM_EDESTTYPE);
}

static void ends_may_be_gids_and_lids(void **state)
{
	assert_int_equal(ask(ACM_GID, "fec0::1:1", "fec0::2:2", 0), ACM_SUCCESS);
	assert_int_equal(last_key.port, 2);
	/* LMC 1: LIDs 4 and 5 are the port's. */
	assert_int_equal(ask(ACM_LID, "5", "7", 0), ACM_SUCCESS);
	assert_int_equal(last_key.port, 0);
	assert_int_equal(last_key.mask, SACACHE_SGID | SACACHE_DLID);
	assert_int_equal(last_key.dlid, 7);
}

static void a_record_without_a_source_goes_by_the_port_in_its_subnet(void **state)
{
	assert_int_equal(ask_record("fec0::2:2", NULL, 0, 0), ACM_SUCCESS);
	assert_int_equal(last_key.port, 2);
	assert_memory_equal(last_key.sgid, d.ports[2].gids[0], 16);
	assert_int_equal(ask_record(NULL, NULL, 7, 0), ACM_SUCCESS);
	assert_int_equal(last_key.port, 0);
	assert_int_equal(ask_record(NULL, NULL, 7, 9), ACM_SUCCESS);
	assert_int_equal(last_key.port, 2);
	assert_int_equal(last_key.mask, SACACHE_SLID | SACACHE_DLID);
	assert_int_equal(ask_record("fe80::1", NULL, 0, 0), ACM_SUCCESS);
	assert_int_equal(last_key.port, 0);
}

static void who_nobody_knows_is_enodata(void **state)
{
	assert_int_equal(ask(ACM_IP, "10.0.0.1", "10.0.0.99", 0), ACM_ENODATA);
	assert_int_equal(stats.count[ACM_COUNT_NODATA], 1);
	assert_int_equal(stats.answers[ACM_ENODATA], 1);
	assert_int_equal(lookups, 0);
}

static void the_partitions_of_active_ports_are_the_endpoints(void **state)
{
	static const struct {
		uint8_t index, portnum, status;
		uint16_t pkey;
	} rows[] = {
		{0, 0, ACM_EINVAL, 0}, {1, 0, 0, 0xffff}, {2, 0, 0, 0xffff},	 {3, 0, 0, 0x8001},
		{4, 0, ACM_EINVAL, 0}, {1, 1, 0, 0xffff}, {1, 2, ACM_EINVAL, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t message[ACM_HEADER_SIZE] = {1, 3, 0, rows[i].index, rows[i].portnum,
						    0, 0, 16};

		assert_true(acm_begin(&d, &stats, message, sizeof(message), &work, out) > 0);
		assert_int_equal(out[2], rows[i].status);
		if (!rows[i].status)
			assert_int_equal(out[ACM_HEADER_SIZE + 12] << 8 | out[ACM_HEADER_SIZE + 13],
					 rows[i].pkey);
	}
}

static void an_endpoint_has_the_names_that_its_port_is_known_by(void **state)
{
	static const uint8_t message[ACM_HEADER_SIZE] = {1, 3, 0, 1, 0, 0, 0, 16};
	const char *name = (char *)out + ACM_HEADER_SIZE + ACM_ENDPOINT_SIZE;

	assert_int_equal(acm_begin(&d, &stats, message, sizeof(message), &work, out),
			 ACM_HEADER_SIZE + ACM_ENDPOINT_SIZE + 3 * ACM_ADDRESS_SIZE);
	assert_int_equal(out[ACM_HEADER_SIZE + 15], 3);
	assert_string_equal(name + ACM_ADDRESS_SIZE, "10.0.0.1");
	assert_string_equal(name + 2 * ACM_ADDRESS_SIZE, "fe80::1");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(what_the_table_has_is_answered_at_once, set_up),
		cmocka_unit_test_setup(what_it_does_not_have_is_asked_for_or_enodata_without_delay,
				       set_up),
		cmocka_unit_test_setup(
			a_path_of_another_partition_than_the_source_is_asked_for_with_its_own,
			set_up),
		cmocka_unit_test_setup(
			a_path_that_was_found_without_its_partition_serves_who_names_it, set_up),
		cmocka_unit_test_setup(a_source_that_is_not_a_ports_is_esrcaddr, set_up),
		cmocka_unit_test_setup(a_source_is_chosen_for_ip_addresses_and_told, set_up),
		cmocka_unit_test_setup(ends_may_be_gids_and_lids, set_up),
		cmocka_unit_test_setup(a_record_without_a_source_goes_by_the_port_in_its_subnet,
				       set_up),
		cmocka_unit_test_setup(who_nobody_knows_is_enodata, set_up),
		cmocka_unit_test_setup(the_partitions_of_active_ports_are_the_endpoints, set_up),
		cmocka_unit_test_setup(an_endpoint_has_the_names_that_its_port_is_known_by, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
