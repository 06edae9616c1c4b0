/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * urxe run: finds the library, sets the environment and becomes the program. What the dynamic
 * linker would pass over in silence (a program that is setuid, static or of another architecture
 * runs, and sees no device) is an error here that says so. One thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fabric/path.h"
#include "host/fabric.h"
#include "tools/urxe.h"
#include "wire/fault.h"

/* A library that is preloaded, and where the build tree has it. */
struct library {
	const char *name, *folder;
};

static const struct library provider = {"liburxe.so.0", "provider"};
static const struct library pool = {"libmempool_malloc.so.0", "mempool"};

/* Into path: the library. False, with a complaint, if it is nowhere. */
static bool find_library(const struct library *library, char path[PATH_MAX])
{
	/* Seen from the directory of this program: the build tree; an installation, wherever it
	 * was moved. */
	const char *const places[] = {library->folder, URXE_BINDIR_TO_LIBDIR, "."};
	char dir[PATH_MAX] = "", *slash, candidate[2 * PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	unsigned i;

	/* Where there is no /proc, the kernel has told by which name it found this program. */
	if (len > 0)
		dir[len] = 0;
	else if (getauxval(AT_EXECFN) && realpath((const char *)getauxval(AT_EXECFN), dir))
		len = strlen(dir);
	if (len > 0) {
		slash = strrchr(dir, '/');
		if (slash)
			*slash = 0;
		for (i = 0; i < sizeof(places) / sizeof(*places); i++) {
			snprintf(candidate, sizeof(candidate), "%s/%s/%s", dir, places[i],
				 library->name);
			if (realpath(candidate, path))
				return true;
		}
	}
	/* And at last where it was to be installed. */
	snprintf(candidate, sizeof(candidate), "%s/%s", URXE_LIBDIR, library->name);
	if (realpath(candidate, path))
		return true;
	urxe_complain("%s is neither in %s/%s nor in %s; build it with `ninja -C build` or install "
		      "it with `meson install -C build`",
		      library->name, len > 0 ? dir : "the build tree", library->folder,
		      URXE_LIBDIR);
	return false;
}

/* Into name: the runtime of a sanitizer that a program or library was built with; false if none. */
static bool sanitizer(const char *path, char name[NAME_MAX])
{
	static const char *const runtimes[] = {"libasan.so", "libtsan.so", "libclang_rt.asan",
					       "libclang_rt.tsan"};
	unsigned i;

	for (i = 0; i < sizeof(runtimes) / sizeof(*runtimes); i++)
		if (urxe_elf_needs(path, runtimes[i], name, NAME_MAX))
			return true;
	return false;
}

/* LD_PRELOAD with the library in front and, if it or the program was built with a sanitizer, the
 * sanitizer's runtime before it, which insists on being the first of all. */
static bool set_preload(const char *library, const char *program)
{
	const char *old = getenv("LD_PRELOAD") ? getenv("LD_PRELOAD") : "";
	char runtime[NAME_MAX], *value;
	bool ok;

	if (strpbrk(library, ": ")) {
		urxe_complain(
			"the path %s has a space or a colon in it, which LD_PRELOAD cannot name; "
			"build or install urxe under another path",
			library);
		return false;
	}
	if (!sanitizer(library, runtime) && !sanitizer(program, runtime))
		runtime[0] = '\0';
	/* What an outer urxe run has put there is not repeated. Empty entries are allowed. */
	if (strstr(old, runtime))
		runtime[0] = '\0';
	if (strstr(old, library))
		library = "";
	ok = asprintf(&value, "%s%s%s%s%s", runtime, *runtime ? ":" : "", library,
		      *library && *old ? ":" : "", old) >= 0;
	if (ok) {
		ok = !setenv("LD_PRELOAD", value, 1);
		free(value);
	}
	if (!ok)
		urxe_complain("out of memory");
	return ok;
}

/* A library behind all others in LD_PRELOAD. */
static bool append_preload(const char *library)
{
	const char *old = getenv("LD_PRELOAD");
	char *value;
	bool ok;

	if (!old || strstr(old, library))
		return old;
	ok = asprintf(&value, "%s:%s", old, library) >= 0;
	if (ok) {
		ok = !setenv("LD_PRELOAD", value, 1);
		free(value);
	}
	if (!ok)
		urxe_complain("out of memory");
	return ok;
}

/* Into path: the file that a shell would run for that name. Returns 0 or an errno. */
static int find_program(const char *name, char path[PATH_MAX])
{
	const char *search = getenv("PATH"), *colon;
	struct stat st;
	int err = ENOENT;

	if (!*name)
		return ENOENT;
	if (strchr(name, '/')) {
		snprintf(path, PATH_MAX, "%s", name);
		return stat(path, &st) ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
	}
	for (search = search ? search : "/usr/bin:/bin"; search;
	     search = colon ? colon + 1 : NULL) {
		colon = strchrnul(search, ':');
		snprintf(path, PATH_MAX, "%.*s/%s", colon > search ? (int)(colon - search) : 1,
			 colon > search ? search : ".", name);
		colon = *colon ? colon : NULL;
		if (stat(path, &st) || S_ISDIR(st.st_mode))
			continue;
		if (!access(path, X_OK))
			return 0;
		err = EACCES;
	}
	return err;
}

/* The interpreter that a script's first line names; false if the file is no script. */
static bool script_interpreter(const char *path, char interpreter[PATH_MAX])
{
	char line[PATH_MAX + 2], *p;
	FILE *f = fopen(path, "re");
	bool found = f && fgets(line, sizeof(line), f) && line[0] == '#' && line[1] == '!';

	if (f)
		fclose(f);
	if (!found)
		return false;
	p = line + 2 + strspn(line + 2, " \t");
	p[strcspn(p, " \t\r\n")] = 0;
	snprintf(interpreter, PATH_MAX, "%s", p);
	return true;
}

/* Does the kernel give the program rights that its caller does not have? Then the dynamic linker
 * takes no library from the caller. */
static const char *privilege(const char *path)
{
	struct stat st;

	if (stat(path, &st) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		return NULL;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return "is setuid";
	if ((st.st_mode & S_ISGID) && st.st_gid != getgid())
		return "is setgid";
	if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		return "has file capabilities";
	return NULL;
}

/* True if a library can be preloaded into that program; a complaint if not. */
static bool preloadable(const char *path)
{
	const char *special = privilege(path);
	char interpreter[PATH_MAX];

	if (special) {
		urxe_complain(
			"%s %s, and such a program loads no library from its caller; run it as "
			"the user it changes to, or run a copy of it without that right",
			path, special);
		return false;
	}
	switch (urxe_elf_kind(path)) {
	case URXE_ELF_STATIC:
		urxe_complain("%s is linked statically, so no library can be loaded into it; use a "
			      "dynamically linked build of it",
			      path);
		return false;
	case URXE_ELF_MUSL:
		urxe_complain(
			"%s is linked to musl, and urxe to glibc; use a build of it for glibc",
			path);
		return false;
	case URXE_ELF_FOREIGN:
		urxe_complain(
			"%s is built for another architecture than urxe; build urxe for that one "
			"as well (for 32-bit programs on 64-bit machines: with -m32)",
			path);
		return false;
	case URXE_ELF_OTHER:
		return !script_interpreter(path, interpreter) || preloadable(interpreter);
	default: return true; /* dynamic; or unreadable, yet it may be executable */
	}
}

/* True if a pool can take the place of malloc() beside that program or library; a complaint if not.
 * */
static bool poolable(const char *path)
{
	char runtime[NAME_MAX];

	if (!sanitizer(path, runtime))
		return true;
	urxe_complain("%s is built with a sanitizer, which has a malloc() of its own: run it "
		      "without --pool",
		      path);
	return false;
}

static bool log_level_known(const char *level)
{
	static const char *const levels[] = {"error", "warn", "info", "debug"};
	unsigned i;

	for (i = 0; i < sizeof(levels) / sizeof(*levels); i++)
		if (!strcmp(level, levels[i]))
			return true;
	urxe_complain("\"%s\" is not a log level; the levels are error, warn, info and debug",
		      level);
	return false;
}

static bool fault_understood(const char *spec)
{
	struct urxe_fault fault;
	char err[256];

	if (!urxe_fault_parse(spec, &fault, err, sizeof(err)))
		return true;
	urxe_complain("--fault: %s", err);
	return false;
}

static void fabric_missing(const char *fabric, const char *what)
{
	bool named = strcmp(fabric, FABRIC_DEFAULT_NAME);

	urxe_complain("the fabric \"%s\" %s: urxe fabric up %s%s%sFILE", fabric, what,
		      named ? "--name " : "", named ? fabric : "", named ? " " : "");
}

void urxe_fabric_is_down(const char *fabric)
{
	fabric_missing(fabric, "is not up; start it with");
}

bool urxe_fabric_is_up(const char *fabric, const char *path)
{
	if (access(path, F_OK))
		urxe_fabric_is_down(fabric);
	else if (fabric_was_killed(path))
		fabric_missing(fabric, "was killed; bring it back with");
	else
		return true;
	return false;
}

bool urxe_on_host(const char *fabric, const char *host)
{
	char path[PATH_MAX];
	int ret = fabric_path(fabric, false, path, sizeof(path));

	if (ret == -ENOENT)
		urxe_fabric_is_down(fabric);
	else if (ret)
		urxe_complain("the fabric \"%s\": %s", fabric, strerror(-ret));
	if (ret || !urxe_fabric_is_up(fabric, path))
		return false;
	setenv("URXE_FABRIC", path, 1);
	setenv("URXE_HOST", host, 1);
	return urxe_fabric_host(); /* which has said what is wrong */
}

/* Takes the options; the index of the program's name in argv, or -1 after a complaint. */
static int options(int argc, char **argv, bool *with_pool)
{
	static const struct option known[] = {{"devices", required_argument, NULL, 'd'},
					      {"fault", required_argument, NULL, 'f'},
					      {"log", required_argument, NULL, 'l'},
					      {"pool", no_argument, NULL, 'p'},
					      {"host", required_argument, NULL, 'h'},
					      {"fabric", required_argument, NULL, 'n'},
					      {NULL}};
	const char *host = NULL, *fabric = FABRIC_DEFAULT_NAME;
	int c;

	while ((c = getopt_long(argc, argv, "+:", known, NULL)) != -1) {
		switch (c) {
		case 'd': setenv("URXE_DEVICES", optarg, 1); break;
		case 'f':
			if (!fault_understood(optarg))
				return -1;
			setenv("URXE_FAULT", optarg, 1);
			break;
		case 'l':
			if (!log_level_known(optarg))
				return -1;
			setenv("URXE_LOG", optarg, 1);
			break;
		case 'p': *with_pool = true; break;
		case 'h': host = optarg; break;
		case 'n': fabric = optarg; break;
		case ':':
			urxe_complain("%s needs a value, see urxe --help", argv[optind - 1]);
			return -1;
		default:
			urxe_complain("%s is not an option of urxe run; options of the program go "
				      "behind its name: urxe run -- PROGRAM ARGUMENT...",
				      argv[optind - 1]);
			return -1;
		}
	}
	if (optind == argc) {
		urxe_complain("run needs a program: urxe run -- PROGRAM ARGUMENT...");
		return -1;
	}
	if (host && !urxe_on_host(fabric, host))
		return -1;
	return optind;
}

int urxe_cmd_run(int argc, char **argv)
{
	char library[PATH_MAX], pool_library[PATH_MAX], path[PATH_MAX];
	bool with_pool = false;
	int first = options(argc, argv, &with_pool), err;

	if (first < 0)
		return URXE_EXIT_USAGE;
	if (!find_library(&provider, library) || (with_pool && !find_library(&pool, pool_library)))
		return URXE_EXIT_CANNOT;
	err = find_program(argv[first], path);
	if (err == ENOENT || err == ENOTDIR) {
		urxe_complain("%s: no such program%s", argv[first],
			      strchr(argv[first], '/') ? "" : " in PATH");
		return URXE_EXIT_NOT_FOUND;
	}
	if (err) {
		urxe_complain("%s: %s", argv[first], strerror(err));
		return URXE_EXIT_CANNOT;
	}
	if (!preloadable(path) || (with_pool && (!poolable(path) || !poolable(library))) ||
	    !set_preload(library, path) || (with_pool && !append_preload(pool_library)))
		return URXE_EXIT_CANNOT;
	/* By path and, for a script without a first line, through the shell. */
	execvp(path, getenv("URXE_HOST") ? urxe_opensm(argv + first) : argv + first);
	urxe_complain("%s: %s", path, strerror(errno));
	return errno == ENOENT ? URXE_EXIT_NOT_FOUND : URXE_EXIT_CANNOT;
}
