/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Parses and builds messages of the kernel's local service. Pure functions.
 */
#include "daemons/sacached/local_service.h"

#include <linux/netlink.h>
#include <rdma/ib_user_sa.h>
#include <string.h>

#define HEADER_SIZE NLMSG_ALIGN(sizeof(struct rdma_ls_resolve_header))

_Static_assert(sizeof(struct ib_path_rec_data) == 8 + 64, "flags, reserved, record");
_Static_assert(NLMSG_HDRLEN + NLA_HDRLEN + sizeof(struct ib_path_rec_data) <= LS_MESSAGE_SIZE,
	       "the longest answer fits");

/* One attribute of a question; -1: a mandatory attribute that is not supported. */
typedef int (*take_attribute)(struct ls_message *message, unsigned type, const uint8_t *data,
			      size_t length);

static int take_attributes(struct ls_message *message, const uint8_t *p, size_t length,
			   take_attribute take)
{
	while (length >= NLA_HDRLEN) {
		struct nlattr attr;
		size_t size;

		memcpy(&attr, p, sizeof(attr));
		if (attr.nla_len < NLA_HDRLEN || attr.nla_len > length)
			return -1;
		if (take(message, attr.nla_type, p + NLA_HDRLEN, attr.nla_len - NLA_HDRLEN))
			return -1;
		size = NLA_ALIGN(attr.nla_len);
		if (size > length)
			break;
		p += size;
		length -= size;
	}
	return 0;
}

/* Unknown attributes are skipped, unless the kernel marks them as mandatory. */
static int unknown_attribute(unsigned type)
{
	return type & RDMA_NLA_F_MANDATORY ? -1 : 0;
}

/* Copies the value if its length is right, and adds the component to the mask. */
static int component(struct sacache_key *key, enum sacache_component which, void *place,
		     size_t size, const uint8_t *data, size_t length)
{
	if (length != size)
		return -1;
	memcpy(place, data, size);
	key->mask |= which;
	return 0;
}

static int take_path_attribute(struct ls_message *message, unsigned type, const uint8_t *data,
			       size_t length)
{
	struct sacache_key *key = &message->key;

	switch (type & RDMA_NLA_TYPE_MASK) {
	case LS_NLA_TYPE_SERVICE_ID:
		return component(key, SACACHE_SERVICE_ID, &key->service_id, 8, data, length);
	case LS_NLA_TYPE_DGID: return component(key, SACACHE_DGID, key->dgid, 16, data, length);
	case LS_NLA_TYPE_SGID: return component(key, SACACHE_SGID, key->sgid, 16, data, length);
	case LS_NLA_TYPE_TCLASS:
		return component(key, SACACHE_TCLASS, &key->tclass, 1, data, length);
	case LS_NLA_TYPE_PKEY: return component(key, SACACHE_PKEY, &key->pkey, 2, data, length);
	case LS_NLA_TYPE_QOS_CLASS:
		return component(key, SACACHE_QOS_CLASS, &key->qos_class, 2, data, length);
	default: return unknown_attribute(type);
	}
}

static enum ls_kind parse_path(struct ls_message *message, const uint8_t *p, size_t length)
{
	struct rdma_ls_resolve_header header;

	if (length < HEADER_SIZE)
		return LS_INVALID;
	memcpy(&header, p, sizeof(header));
	memcpy(message->device, header.device_name, LS_DEVICE_NAME_MAX);
	message->port = header.port_num;
	message->path_use = header.path_use;
	if (header.path_use >= LS_RESOLVE_PATH_USE_MAX ||
	    take_attributes(message, p + HEADER_SIZE, length - HEADER_SIZE, take_path_attribute) ||
	    !(message->key.mask & SACACHE_DGID) || message->key.qos_class > 0xfff)
		return LS_INVALID;
	return LS_PATH;
}

static int take_address(struct ls_message *message, unsigned type, const uint8_t *data,
			size_t length)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)&message->address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&message->address;

	switch (type & RDMA_NLA_TYPE_MASK) {
	case LS_NLA_TYPE_IPV4:
		if (length != sizeof(v4->sin_addr))
			return -1;
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_addr, data, length);
		return 0;
	case LS_NLA_TYPE_IPV6:
		if (length != sizeof(v6->sin6_addr))
			return -1;
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_addr, data, length);
		return 0;
	default: return unknown_attribute(type);
	}
}

static enum ls_kind parse_address(struct ls_message *message, const uint8_t *p, size_t length)
{
	const size_t header = NLMSG_ALIGN(sizeof(struct rdma_ls_ip_resolve_header));

	if (length < header ||
	    take_attributes(message, p + header, length - header, take_address) ||
	    message->address.ss_family == AF_UNSPEC)
		return LS_INVALID;
	return LS_ADDRESS;
}

static enum ls_kind parse_acknowledge(struct ls_message *message, const uint8_t *p, size_t length)
{
	struct nlmsgerr error;

	if (length < sizeof(error))
		return LS_IGNORE;
	memcpy(&error, p, sizeof(error));
	if (error.error > 0)
		return LS_IGNORE;
	message->type = error.msg.nlmsg_type;
	message->seq = error.msg.nlmsg_seq;
	message->error = error.error;
	return LS_ACKNOWLEDGE;
}

enum ls_kind ls_parse(const void *buf, size_t length, struct ls_message *message, size_t *size)
{
	const uint8_t *p = (const uint8_t *)buf + NLMSG_HDRLEN;
	struct nlmsghdr header;

	*size = 0;
	if (length < sizeof(header))
		return LS_IGNORE;
	memcpy(&header, buf, sizeof(header));
	if (header.nlmsg_len < sizeof(header) || header.nlmsg_len > length)
		return LS_IGNORE;
	*size = NLMSG_ALIGN((size_t)header.nlmsg_len);
	if (*size > length)
		*size = length;
	length = header.nlmsg_len - NLMSG_HDRLEN;
	memset(message, 0, sizeof(*message));
	message->type = header.nlmsg_type;
	message->seq = header.nlmsg_seq;
	if (header.nlmsg_type == NLMSG_ERROR)
		return parse_acknowledge(message, p, length);
	if (RDMA_NL_GET_CLIENT(header.nlmsg_type) != RDMA_NL_LS ||
	    !(header.nlmsg_flags & NLM_F_REQUEST))
		return LS_IGNORE;
	switch (RDMA_NL_GET_OP(header.nlmsg_type)) {
	case RDMA_NL_LS_OP_RESOLVE: return parse_path(message, p, length);
	case RDMA_NL_LS_OP_IP_RESOLVE: return parse_address(message, p, length);
	default: return LS_INVALID;
	}
}

/* A message with one attribute, or with none. */
static size_t put_message(uint8_t buf[LS_MESSAGE_SIZE], const struct nlmsghdr *header,
			  uint16_t attribute, const void *data, size_t length)
{
	struct nlattr attr = {.nla_len = NLA_HDRLEN + length, .nla_type = attribute};
	struct nlmsghdr whole = *header;

	memset(buf, 0, LS_MESSAGE_SIZE);
	whole.nlmsg_len = NLMSG_HDRLEN + (data ? NLA_ALIGN(attr.nla_len) : 0);
	memcpy(buf, &whole, sizeof(whole));
	if (data) {
		memcpy(buf + NLMSG_HDRLEN, &attr, sizeof(attr));
		memcpy(buf + NLMSG_HDRLEN + NLA_HDRLEN, data, length);
	}
	return whole.nlmsg_len;
}

size_t ls_answer_error(const struct ls_message *question, uint8_t buf[LS_MESSAGE_SIZE])
{
	struct nlmsghdr header = {.nlmsg_type = question->type,
				  .nlmsg_flags = RDMA_NL_LS_F_ERR,
				  .nlmsg_seq = question->seq};

	return put_message(buf, &header, 0, NULL, 0);
}

/*
 * The kernel takes a path only if its flags hold all that the use needs: PRIMARY and OUTBOUND for
 * one direction, or else PRIMARY, GMP and BIDIRECTIONAL. (Since 6.1 it asks for ALL, is content
 * with PRIMARY, and uses the path for which GMP is said.)
 */
size_t ls_answer_path(const struct ls_message *question, const struct sacache_path *path,
		      uint8_t buf[LS_MESSAGE_SIZE])
{
	bool one_way = question->path_use == LS_RESOLVE_PATH_USE_UNIDIRECTIONAL;
	struct nlmsghdr header = {.nlmsg_type = question->type, .nlmsg_seq = question->seq};
	struct ib_path_rec_data data = {
		.flags = one_way ? IB_PATH_PRIMARY | IB_PATH_OUTBOUND
				 : IB_PATH_PRIMARY | IB_PATH_GMP | IB_PATH_BIDIRECTIONAL,
	};

	if (!path || (!one_way && !path->reversible))
		return ls_answer_error(question, buf);
	sacache_path_encode(path, (uint8_t *)data.path_rec);
	return put_message(buf, &header, LS_NLA_TYPE_PATH_RECORD, &data, sizeof(data));
}

size_t ls_answer_address(const struct ls_message *question, const uint8_t gid[16],
			 uint8_t buf[LS_MESSAGE_SIZE])
{
	struct nlmsghdr header = {.nlmsg_type = question->type, .nlmsg_seq = question->seq};

	if (!gid)
		return ls_answer_error(question, buf);
	return put_message(buf, &header, LS_NLA_TYPE_DGID, gid, 16);
}

size_t ls_set_timeout(uint32_t seq, uint32_t timeout, uint8_t buf[LS_MESSAGE_SIZE])
{
	struct nlmsghdr header = {
		.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_LS, RDMA_NL_LS_OP_SET_TIMEOUT),
		.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
		.nlmsg_seq = seq,
	};

	return put_message(buf, &header, LS_NLA_TYPE_TIMEOUT, &timeout, sizeof(timeout));
}
