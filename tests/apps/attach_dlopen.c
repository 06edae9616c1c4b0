/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A program that does not link libibverbs but loads it and looks every symbol up, with dlsym() and
 * with dlvsym(), as NCCL and others do. Prints where each answer lies, as "question: object", for
 * attach.bats to compare, and last the devices that the looked-up functions list.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <infiniband/verbs.h>

static void where(const char *question, void *address)
{
	const char *file = "nowhere", *slash;
	Dl_info info;

	if (address && dladdr(address, &info))
		file = info.dli_fname;
	slash = strrchr(file, '/');
	printf("%s: %s\n", question, slash ? slash + 1 : file);
}

int main(void)
{
	void *handle = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	struct ibv_device **(*get)(int *);
	void (*put)(struct ibv_device **);
	struct ibv_context *(*import)(int);
	struct ibv_device **list;
	int i, n = -1;

	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	get = dlvsym(handle, "ibv_get_device_list", "IBVERBS_1.1");
	put = dlsym(handle, "ibv_free_device_list");
	import = dlsym(handle, "ibv_import_device");
	where("version 1.1", get);
	where("no version", put);
	where("default", dlsym(RTLD_DEFAULT, "ibv_open_device"));
	where("old version", dlvsym(handle, "ibv_open_device", "IBVERBS_1.0"));
	where("unknown version", dlvsym(handle, "ibv_open_device", "IBVERBS_9.9"));
	where("helper", dlsym(handle, "ibv_wc_status_str"));
	where("nonsense", dlsym(handle, "ibv_nonsense"));
	printf("error: %s\n", dlerror() ? "told" : "lost");
	where("libc", dlsym(RTLD_NEXT, "getpid"));
	if (!get || !put || !import)
		return 1;

	list = get(&n);
	for (i = 0; list && i < n; i++)
		printf("device: %s\n", list[i]->name);
	if (!list || list[n])
		return 1;
	put(list);
	/* libibverbs searches its devices for that of the descriptor, and must not meet ours. */
	errno = 0;
	printf("import: %s", import(0) ? "imported" : "refused");
	printf(errno ? "\n" : " without errno\n");
	return 0;
}
