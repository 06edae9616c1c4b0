/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libFuzzer target for the messages of the kernel's path resolution: an input is a datagram.
 * Whatever it holds, all of it is read once and nothing beyond it, a question is one that can be
 * asked, and each is answered by a message that the kernel can read.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/netlink.h>
#include <rdma/ib_user_sa.h>

#include "daemons/sacached/local_service.h"

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

/* As the kernel looks at an answer: its length, number and type, and one attribute or an error. */
static void check_answer(const struct ls_message *message, const uint8_t *buf, size_t length,
			 uint16_t type, size_t size)
{
	struct nlmsghdr header;
	struct nlattr attr;

	CHECK(length >= sizeof(header) && length <= LS_MESSAGE_SIZE);
	memcpy(&header, buf, sizeof(header));
	CHECK(header.nlmsg_len == length);
	CHECK(header.nlmsg_type == message->type && header.nlmsg_seq == message->seq);
	CHECK(!(header.nlmsg_flags & NLM_F_REQUEST));
	CHECK((length == sizeof(header)) == (header.nlmsg_flags == RDMA_NL_LS_F_ERR));
	if (length == sizeof(header))
		return;
	memcpy(&attr, buf + sizeof(header), sizeof(attr));
	CHECK(attr.nla_type == type && attr.nla_len == sizeof(attr) + size);
	CHECK(length == sizeof(header) + sizeof(attr) + size);
}

static void answer_path(const struct ls_message *message)
{
	struct sacache_path path = {.dlid = 1, .reversible = message->seq & 1};
	uint8_t buf[LS_MESSAGE_SIZE];
	size_t length = ls_answer_path(message, &path, buf);

	check_answer(message, buf, length, LS_NLA_TYPE_PATH_RECORD,
		     sizeof(struct ib_path_rec_data));
	CHECK(length > sizeof(struct nlmsghdr) || !path.reversible);
}

static void one_message(enum ls_kind kind, const struct ls_message *message)
{
	static const uint8_t gid[16] = {0xfe, 0x80};
	uint8_t buf[LS_MESSAGE_SIZE];

	switch (kind) {
	case LS_PATH:
		CHECK(strlen(message->device) <= LS_DEVICE_NAME_MAX);
		CHECK(message->key.mask & SACACHE_DGID && message->key.qos_class <= 0xfff);
		CHECK(message->path_use < LS_RESOLVE_PATH_USE_MAX && message->key.port == 0);
		answer_path(message);
		break;
	case LS_ADDRESS:
		CHECK(message->address.ss_family == AF_INET ||
		      message->address.ss_family == AF_INET6);
		check_answer(message, buf, ls_answer_address(message, gid, buf), LS_NLA_TYPE_DGID,
			     16);
		break;
	case LS_INVALID: check_answer(message, buf, ls_answer_error(message, buf), 0, 0); break;
	case LS_ACKNOWLEDGE: CHECK(message->error <= 0); break;
	case LS_IGNORE: break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	while (size) {
		struct ls_message message;
		size_t length;
		enum ls_kind kind = ls_parse(data, size, &message, &length);

		CHECK(length <= size && (length || kind == LS_IGNORE));
		if (!length)
			break;
		one_message(kind, &message);
		data += length;
		size -= length;
	}
	return 0;
}
