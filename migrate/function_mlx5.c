// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * mlx5's virtual functions by rtnetlink. libnl sets these GUIDs and does not read them, so both are
 * done here, with the kernel's structures. mlx5 answers with what was set, whatever the function's
 * driver has read: a GUID has to be there before that one probes. The subnet manager gives the
 * P_Keys. Any thread.
 */
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <linux/if_link.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "migrate/function_mlx5.h"

#define ANSWER_LEN (128 << 10)
#define TIMEOUT_S  5

/* ---- messages ---- */

static struct nlmsghdr *begin(void *message, uint16_t type, int ifindex, uint32_t sequence)
{
	struct nlmsghdr *header = message;
	struct ifinfomsg *info;

	memset(message, 0, MLX5_MESSAGE_LEN);
	header->nlmsg_len = NLMSG_LENGTH(sizeof(*info));
	header->nlmsg_type = type;
	header->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	header->nlmsg_seq = sequence;
	info = NLMSG_DATA(header);
	info->ifi_family = AF_UNSPEC;
	info->ifi_index = ifindex;
	return header;
}

static struct rtattr *add(struct nlmsghdr *header, uint16_t type, const void *data, size_t len)
{
	struct rtattr *attr = (struct rtattr *)((char *)header + NLMSG_ALIGN(header->nlmsg_len));

	attr->rta_type = type;
	attr->rta_len = RTA_LENGTH(len);
	if (len)
		memcpy(RTA_DATA(attr), data, len);
	header->nlmsg_len = NLMSG_ALIGN(header->nlmsg_len) + RTA_ALIGN(attr->rta_len);
	return attr;
}

static void end(const struct nlmsghdr *header, struct rtattr *nest)
{
	nest->rta_len = (char *)header + header->nlmsg_len - (char *)nest;
}

size_t mlx5_set_message(void *message, int ifindex, int number, uint64_t guid, uint32_t sequence)
{
	struct ifla_vf_link_state state = {number, guid ? IFLA_VF_LINK_STATE_AUTO
							: IFLA_VF_LINK_STATE_DISABLE};
	struct nlmsghdr *header = begin(message, RTM_NEWLINK, ifindex, sequence);
	struct rtattr *list = add(header, IFLA_VFINFO_LIST, NULL, 0);
	struct rtattr *info = add(header, IFLA_VF_INFO, NULL, 0);
	struct ifla_vf_guid value;

	memset(&value, 0, sizeof(value)); /* with what is between its members */
	value.vf = number;
	value.guid = guid;
	add(header, IFLA_VF_IB_NODE_GUID, &value, sizeof(value));
	add(header, IFLA_VF_IB_PORT_GUID, &value, sizeof(value));
	add(header, IFLA_VF_LINK_STATE, &state, sizeof(state));
	end(header, info);
	end(header, list);
	return header->nlmsg_len;
}

size_t mlx5_get_message(void *message, int ifindex, uint32_t sequence)
{
	uint32_t mask = RTEXT_FILTER_VF;
	struct nlmsghdr *header = begin(message, RTM_GETLINK, ifindex, sequence);

	header->nlmsg_flags = NLM_F_REQUEST;
	add(header, IFLA_EXT_MASK, &mask, sizeof(mask));
	return header->nlmsg_len;
}

/* False: its GUID is not there, as with kernels before 5.5. */
static bool take_function(struct rtattr *info, struct function *function)
{
	int len = RTA_PAYLOAD(info);

	for (struct rtattr *a = RTA_DATA(info); RTA_OK(a, len); a = RTA_NEXT(a, len)) {
		struct ifla_vf_guid value;

		if (a->rta_type != IFLA_VF_IB_PORT_GUID || RTA_PAYLOAD(a) < sizeof(value))
			continue;
		memcpy(&value, RTA_DATA(a), sizeof(value));
		*function = (struct function){.number = (int)value.vf, .guid = value.guid};
		return true;
	}
	return false;
}

/* Adds the functions of a list; how many there are then. */
static int take_list(struct rtattr *list, struct function *functions, int count, size_t room)
{
	int len = RTA_PAYLOAD(list);

	for (struct rtattr *i = RTA_DATA(list); RTA_OK(i, len); i = RTA_NEXT(i, len)) {
		if ((size_t)count == room)
			return -E2BIG;
		if (!take_function(i, &functions[count++]))
			return -EOPNOTSUPP;
	}
	return count;
}

int mlx5_parse(const void *message, size_t size, struct function *functions, size_t room)
{
	const struct nlmsghdr *header = message;
	int len, count = 0;
	uint32_t number = 0;

	if (size < NLMSG_LENGTH(sizeof(struct ifinfomsg)) || header->nlmsg_len > size ||
	    header->nlmsg_len < NLMSG_LENGTH(sizeof(struct ifinfomsg)) ||
	    header->nlmsg_type != RTM_NEWLINK)
		return -EPROTO;
	len = IFLA_PAYLOAD(header);
	for (struct rtattr *a = IFLA_RTA(NLMSG_DATA(header)); RTA_OK(a, len) && count >= 0;
	     a = RTA_NEXT(a, len)) {
		if ((a->rta_type & NLA_TYPE_MASK) == IFLA_VFINFO_LIST)
			count = take_list(a, functions, count, room);
		else if (a->rta_type == IFLA_NUM_VF && RTA_PAYLOAD(a) >= sizeof(number))
			memcpy(&number, RTA_DATA(a), sizeof(number));
	}
	/* The list's length has 16 bits: one that is too long is cut. */
	return count >= 0 && (uint32_t)count < number ? -EPROTO : count;
}

/* ---- the socket ---- */

static int open_socket(void)
{
	const struct timeval limit = {.tv_sec = TIMEOUT_S};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return fd;
}

/* The answer's length, 0 for an acknowledgement, or the kernel's error. */
static ssize_t talk(const void *message, size_t len, char *answer, size_t room)
{
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	const struct nlmsghdr *header = (const struct nlmsghdr *)answer;
	int fd = open_socket();
	ssize_t got;

	if (fd < 0)
		return fd;
	got = sendto(fd, message, len, 0, (const struct sockaddr *)&kernel, sizeof(kernel));
	if (got == (ssize_t)len)
		got = recv(fd, answer, room, 0);
	if (got < 0)
		got = -errno;
	close(fd);
	if (got < (ssize_t)sizeof(*header))
		return got < 0 ? got : -EPROTO;
	if (header->nlmsg_type == NLMSG_ERROR)
		return ((const struct nlmsgerr *)NLMSG_DATA(header))->error;
	return got;
}

/* A driver of this host holds it; vfio-pci only keeps it for guests. */
static bool is_busy(const char *where, int number)
{
	char path[PATH_MAX], target[PATH_MAX];
	const char *base;
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/virtfn%d/driver", where, number);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	base = strrchr(target, '/');
	return strcmp(base ? base + 1 : target, "vfio-pci") != 0;
}

static int list(const char *where, struct function *functions, size_t room)
{
	static _Thread_local _Alignas(8) char answer[ANSWER_LEN];
	_Alignas(8) char message[MLX5_MESSAGE_LEN];
	unsigned ifindex = if_nametoindex(where);
	ssize_t len;
	int count;

	if (!ifindex)
		return -ENODEV;
	len = talk(message, mlx5_get_message(message, ifindex, 1), answer, sizeof(answer));
	if (len < 0)
		return (int)len;
	count = mlx5_parse(answer, len, functions, room);
	for (int i = 0; i < count; i++)
		functions[i].busy = is_busy(where, functions[i].number);
	return count;
}

static int change(const char *where, int number, uint64_t guid)
{
	_Alignas(8) char message[MLX5_MESSAGE_LEN], answer[1024];
	unsigned ifindex = if_nametoindex(where);

	if (!ifindex)
		return -ENODEV;
	return (int)talk(message, mlx5_set_message(message, ifindex, number, guid, 1), answer,
			 sizeof(answer));
}

static int set(const char *where, int number, const struct record *record)
{
	return change(where, number, record->guid);
}

static int clear(const char *where, int number)
{
	return change(where, number, 0);
}

const struct function_provider function_mlx5 = {"mlx5", list, NULL, set, clear};
