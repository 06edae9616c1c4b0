/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What comes to inbandd by HTTP: who one is, and what one asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemons/inbandd/web_parse.h"

#define OPERATOR "0123456789abcdef"
#define VIEWER	 "fedcba9876543210"

static void roles_follow_from_tokens(void **state)
{
	struct web_tokens t;
	const char *name;
	char error[128];

	assert_int_equal(web_tokens_parse(&t, "# who\n operator\t" OPERATOR " ada\r\n\n", error,
					  sizeof(error)),
			 0);
	assert_int_equal(web_role_of(&t, OPERATOR, &name), WEB_OPERATOR);
	assert_string_equal(name, "ada");
	assert_int_equal(web_role_of(&t, VIEWER, &name), WEB_VIEWER);
	assert_string_equal(name, "");
	assert_int_equal(web_role_of(&t, NULL, &name), WEB_VIEWER);

	assert_int_equal(web_tokens_parse(&t, "viewer " VIEWER "\noperator " OPERATOR, error,
					  sizeof(error)),
			 0);
	assert_int_equal(web_role_of(&t, VIEWER, &name), WEB_VIEWER);
	assert_string_equal(name, "viewer");
	assert_int_equal(web_role_of(&t, NULL, &name), WEB_NOBODY);
	assert_int_equal(web_role_of(&t, OPERATOR "0", &name), WEB_NOBODY);
	assert_int_equal(web_role_of(&t, "", &name), WEB_NOBODY);
}

static void bad_tokens_are_told(void **state)
{
	static const char *const bad[] = {"root " OPERATOR, "operator", "operator short",
					  "operator 0123456789abc;def", "\n\noperator  \t"};
	struct web_tokens t;
	char error[128], *many = calloc(1, 100 * 32);

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(web_tokens_parse(&t, bad[i], error, sizeof(error)) < 0);
		assert_non_null(strstr(error, i == 4 ? "line 3: " : "line 1: "));
	}
	for (unsigned i = 0; i < 65; i++)
		strcat(many, "viewer " VIEWER "\n");
	assert_true(web_tokens_parse(&t, many, error, sizeof(error)) < 0);
	assert_non_null(strstr(error, "line 65"));
	free(many);
}

static void a_file_of_tokens_is_its_owners(void **state)
{
	char path[] = "/tmp/tokens.XXXXXX";
	struct web_tokens t;
	int fd = mkstemp(path);

	assert_true(write(fd, "operator " OPERATOR "\n", 26) == 26);
	assert_int_equal(fchmod(fd, 0640), 0);
	assert_true(web_tokens_load(&t, path) < 0);
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(web_tokens_load(&t, path), 0);
	assert_int_equal(t.count, 1);
	close(fd);
	unlink(path);
	assert_true(web_tokens_load(&t, path) < 0);
	assert_true(web_tokens_load(&t, "/tmp") < 0);
}

static void tokens_come_in_either_header(void **state)
{
	char token[WEB_TOKEN_LEN], longest[300];

	assert_string_equal(web_token("Bearer " OPERATOR, NULL, token), OPERATOR);
	assert_string_equal(web_token("bearer " OPERATOR, "inbandd=" VIEWER, token), OPERATOR);
	assert_null(web_token("Basic " OPERATOR, "inbandd=" VIEWER, token));
	assert_string_equal(web_token(NULL, "a=b; inbandd=" VIEWER "; c=d", token), VIEWER);
	assert_null(web_token(NULL, "xinbandd=" VIEWER, token));
	assert_null(web_token(NULL, "inbandd=", token));
	assert_null(web_token(NULL, NULL, token));
	snprintf(longest, sizeof(longest), "Bearer %0200d", 1);
	assert_null(web_token(longest, NULL, token));
}

static void hosts_of_elsewhere_are_refused(void **state)
{
	assert_true(web_host_is_local("127.0.0.1:8470"));
	assert_true(web_host_is_local("LOCALHOST"));
	assert_true(web_host_is_local("[::1]:1"));
	assert_false(web_host_is_local("localhost.example"));
	assert_false(web_host_is_local("127.0.0.1.example:8470"));
	assert_false(web_host_is_local(NULL));
}

static void arguments_become_members(void **state)
{
	struct json_object *request = json_object_new_object();

	assert_true(web_argument(request, "from", "17"));
	assert_true(web_argument(request, "chip", "S.leaf.3.7"));
	assert_true(web_argument(request, "all", NULL));
	assert_true(web_argument(request, "to", "99999999999999999999"));
	assert_false(web_argument(request, "plan", "/etc/passwd"));
	assert_false(web_argument(request, "command", "write"));
	assert_string_equal(json_object_to_json_string_ext(request, JSON_C_TO_STRING_PLAIN),
			    "{\"from\":17,\"chip\":\"S.leaf.3.7\",\"all\":true,"
			    "\"to\":\"99999999999999999999\"}");
	json_object_put(request);
}

static void bodies_are_objects(void **state)
{
	static const char *const bad[] = {"",	"[]", "17", "{\"a\":", "{\"a\":[[[[[[1]]]]]]}",
					  "{}x"};
	struct json_object *body = web_body("{\"ms\": 10} ", 11);

	assert_non_null(body);
	json_object_put(body);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_null(web_body(bad[i], strlen(bad[i])));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(roles_follow_from_tokens),
		cmocka_unit_test(bad_tokens_are_told),
		cmocka_unit_test(a_file_of_tokens_is_its_owners),
		cmocka_unit_test(tokens_come_in_either_header),
		cmocka_unit_test(hosts_of_elsewhere_are_refused),
		cmocka_unit_test(arguments_become_members),
		cmocka_unit_test(bodies_are_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
