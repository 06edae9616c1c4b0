// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* What the kernel says of routes, with a kernel of the test's. */
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "ipoib_test.h"

static unsigned questions;
static int send_error, answer_error;
static uint32_t seq;

ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags)
{
	questions++;
	seq = ((const struct nlmsghdr *)bytes)->nlmsg_seq;
	errno = send_error;
	return send_error ? -1 : (ssize_t)len;
}

/* A route without attributes, or an error. */
ssize_t __wrap_recv(int fd, void *bytes, size_t room, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t room, int flags)
{
	size_t len = NLMSG_LENGTH(answer_error ? sizeof(struct nlmsgerr) : sizeof(struct rtmsg));
	struct nlmsghdr *h = bytes;

	memset(bytes, 0, len);
	h->nlmsg_len = (uint32_t)len;
	h->nlmsg_seq = seq;
	h->nlmsg_type = answer_error ? NLMSG_ERROR : RTM_NEWROUTE;
	if (answer_error)
		((struct nlmsgerr *)NLMSG_DATA(h))->error = answer_error;
	return (ssize_t)len;
}

void groups_follow(struct ipoib *of)
{
}

void neighbours_announce(struct ipoib *of)
{
}

static int set_up(void **state)
{
	questions = 0;
	send_error = answer_error = 0;
	begin_test();
	return kernel_create(&ib);
}

static int tear_down(void **state)
{
	kernel_destroy(&ib);
	return end_test();
}

static bool leads_to(const char *text)
{
	struct in6_addr ip = address(text), hop;

	return kernel_next_hop(&ib, &ip, &hop);
}

static void an_answer_is_kept(void **state)
{
	assert_true(leads_to("10.0.0.2"));
	assert_true(leads_to("10.0.0.2"));
	assert_int_equal(questions, 1);
	answer_error = -ENETUNREACH;
	assert_false(leads_to("10.0.0.3"));
	answer_error = 0;
	assert_false(leads_to("10.0.0.3"));
	assert_int_equal(questions, 2);
}

static void a_question_that_failed_is_asked_again(void **state)
{
	send_error = ENOBUFS;
	assert_false(leads_to("10.0.0.2"));
	send_error = 0;
	answer_error = -ENOMEM;
	assert_false(leads_to("10.0.0.2"));
	answer_error = 0;
	assert_true(leads_to("10.0.0.2"));
	assert_int_equal(questions, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(an_answer_is_kept),
		TEST(a_question_that_failed_is_asked_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
