// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * The configuration file and URXE_DEVICES; config.h says how they look. Called once per process
 * under the lock of device.c; keeps nothing.
 */
#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/config.h"
#include "host/log.h"
#include "host/sysinfo.h"

#define MAX_FILE 65536

/* Where an error is: file:line, or the variable. */
struct place {
	const char *file;
	unsigned line;
	char *error;
};

static __attribute__((format(printf, 2, 3))) int bad(const struct place *at, const char *fmt, ...)
{
	size_t len = 0;
	va_list ap;

	if (at->line)
		len = snprintf(at->error, URXE_CONFIG_ERROR_LEN, "%.100s:%u: ", at->file, at->line);
	else
		len = snprintf(at->error, URXE_CONFIG_ERROR_LEN, "%.100s: ", at->file);
	va_start(ap, fmt);
	vsnprintf(at->error + len, URXE_CONFIG_ERROR_LEN - len, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

struct urxe_config_device *urxe_config_find(struct urxe_config *cfg, const char *name)
{
	for (unsigned i = 0; i < cfg->count; i++)
		if (!strcmp(cfg->devices[i].name, name))
			return &cfg->devices[i];
	return NULL;
}

static int check_device_name(const struct place *at, const char *name)
{
	size_t len = strlen(name);

	if (!len || len >= IBV_SYSFS_NAME_MAX)
		return bad(at, "a device name has 1 to %d characters: shorten \"%.64s\"",
			   IBV_SYSFS_NAME_MAX - 1, name);
	for (const char *s = name; *s; s++)
		if (!isalnum((unsigned char)*s) && !strchr("_-.", *s))
			return bad(at, "\"%s\" is no device name: use letters, digits, _, - and .",
				   name);
	if (name[0] == '.')
		return bad(at, "\"%s\" is no device name: begin it with a letter", name);
	return 0;
}

static int set_netdev(struct urxe_config *cfg, struct urxe_config_device *dev,
		      const struct place *at, const char *netdev)
{
	size_t len = strlen(netdev);

	if (!len || len >= IF_NAMESIZE || strpbrk(netdev, "/ \t:"))
		return bad(at, "\"%.64s\" is no netdev name: use one that `ip link` shows", netdev);
	for (unsigned i = 0; i < cfg->count; i++)
		if (&cfg->devices[i] != dev && !strcmp(cfg->devices[i].netdev, netdev))
			return bad(at, "%s already has the device %s: name each netdev once",
				   netdev, cfg->devices[i].name);
	memcpy(dev->netdev, netdev, len + 1);
	cfg->named = true;
	return 0;
}

/* 16 hexadecimal digits, with 0x in front or colons between pairs of them. */
static int set_guid(struct urxe_config *cfg, struct urxe_config_device *dev, const struct place *at,
		    const char *text)
{
	const char *s = text;
	unsigned digits = 0;
	uint64_t guid = 0;

	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	for (; *s; s++) {
		if (*s == ':' && digits && digits % 2 == 0 && s[1])
			continue;
		if (!isxdigit((unsigned char)*s) || ++digits > 16)
			break;
		guid = guid << 4 | (isdigit((unsigned char)*s) ? *s - '0' : (*s | 0x20) - 'a' + 10);
	}
	if (*s || digits != 16 || !guid)
		return bad(at,
			   "\"%.64s\" is no GUID: write 16 hexadecimal digits, not all 0, "
			   "like 0200:00ff:fe00:0001",
			   text);
	for (unsigned i = 0; i < cfg->count; i++)
		if (&cfg->devices[i] != dev && cfg->devices[i].guid == htobe64(guid))
			return bad(at, "%s has this GUID too: give each device its own",
				   cfg->devices[i].name);
	dev->guid = htobe64(guid);
	return 0;
}

static int add_device(struct urxe_config *cfg, const struct place *at, const char *name,
		      struct urxe_config_device **dev)
{
	int ret = check_device_name(at, name);

	if (ret)
		return ret;
	if (cfg->count == URXE_MAX_DEVICES)
		return bad(at, "more than %d devices: remove some", URXE_MAX_DEVICES);
	*dev = &cfg->devices[cfg->count++];
	strcpy((*dev)->name, name);
	(*dev)->line = at->line;
	return 0;
}

/* Cuts white space off both ends, in place. */
static char *trim(char *s)
{
	char *end = s + strlen(s);

	while (isspace((unsigned char)*s))
		s++;
	while (end > s && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return s;
}

/* What is behind the = of "key = value", and *key without white space; NULL: there is none. */
static char *split(char **key)
{
	char *eq = strchr(*key, '=');

	if (eq)
		*eq = '\0';
	*key = trim(*key);
	return eq ? trim(eq + 1) : NULL;
}

static int parse_section(struct urxe_config *cfg, const struct place *at, char *line,
			 struct urxe_config_device **dev)
{
	size_t len = strlen(line);
	const struct urxe_config_device *old;
	char *name;

	if (line[len - 1] != ']')
		return bad(at, "a section without its end: write [urxe0]");
	line[len - 1] = '\0';
	name = trim(line + 1);
	old = urxe_config_find(cfg, name);
	if (old)
		return bad(at, "[%s] begins on line %u already: keep one of them", name, old->line);
	return add_device(cfg, at, name, dev);
}

static int parse_setting(struct urxe_config *cfg, const struct place *at, char *line,
			 struct urxe_config_device *dev)
{
	char *key = line, *value = split(&key);
	bool guid = !strcmp(key, "guid");

	if (!value)
		return bad(at, "no `=` in \"%.64s\": write a section [urxe0] or key = value", line);
	if (!dev)
		return bad(at, "%.64s belongs to no device: write a section like [urxe0] before it",
			   key);
	if (!guid && strcmp(key, "netdev"))
		return bad(at, "unknown key \"%.64s\": the keys are netdev and guid", key);
	if (guid ? dev->guid != 0 : dev->netdev[0] != 0)
		return bad(at, "a second %s of %s: keep one of them", key, dev->name);
	return (guid ? set_guid : set_netdev)(cfg, dev, at, value);
}

int urxe_config_parse(struct urxe_config *cfg, const char *text, const char *file,
		      char error[URXE_CONFIG_ERROR_LEN])
{
	struct place at = {.file = file, .error = error};
	struct urxe_config_device *dev = NULL;
	char *copy = strdup(text), *rest = copy, *line;
	int ret = 0;

	if (!copy)
		return -ENOMEM;
	while (!ret && (line = strsep(&rest, "\n"))) {
		at.line++;
		line[strcspn(line, "#;")] = '\0';
		line = trim(line);
		if (!*line)
			continue;
		if (*line == '[')
			ret = parse_section(cfg, &at, line, &dev);
		else
			ret = parse_setting(cfg, &at, line, dev);
	}
	free(copy);
	return ret;
}

int urxe_config_parse_devices(struct urxe_config *cfg, const char *value,
			      char error[URXE_CONFIG_ERROR_LEN])
{
	const struct place at = {.file = "URXE_DEVICES", .error = error};
	struct urxe_config file = *cfg;
	char *copy = strdup(value), *rest = copy, *item;
	int ret = 0;

	if (!copy)
		return -ENOMEM;
	memset(cfg, 0, sizeof(*cfg));
	while (!ret && (item = strsep(&rest, ","))) {
		const struct urxe_config_device *section;
		struct urxe_config_device *dev;
		char *name = item, *netdev = split(&name);

		if (!netdev)
			ret = bad(&at, "no `=` in \"%.64s\": write urxe0=eth0,urxe1=lo", name);
		else if (urxe_config_find(cfg, name))
			ret = bad(&at, "%s is named twice: keep one of them", name);
		else
			ret = add_device(cfg, &at, name, &dev) ?: set_netdev(cfg, dev, &at, netdev);
		section = ret ? NULL : urxe_config_find(&file, name);
		if (section)
			dev->guid = section->guid;
	}
	free(copy);
	return ret;
}

/* -ENOENT: go on to the next place. */
static int load_file(struct urxe_config *cfg, const char *path, char error[URXE_CONFIG_ERROR_LEN])
{
	const struct place at = {.file = path, .error = error};
	char *text = malloc(MAX_FILE);
	ssize_t len;
	int ret;

	if (!text)
		return -ENOMEM;
	len = urxe_read_file(path, text, MAX_FILE);
	if (len == -ENOENT || len == -ENOTDIR)
		ret = -ENOENT;
	else if (len < 0)
		ret = bad(&at, "%s: make it a readable file of less than 64 KiB", strerror(-len));
	else if (strlen(text) != (size_t)len)
		ret = bad(&at, "holds binary data: write text");
	else
		ret = urxe_config_parse(cfg, text, path, error);
	free(text);
	return ret;
}

/* Does a folder on the way keep even from us whether there is such a file? */
static bool hidden(const char *path)
{
	struct urxe_stat st;

	return urxe_stat_at(AT_FDCWD, path, 0, &st) == -EACCES;
}

static int load_files(struct urxe_config *cfg, char error[URXE_CONFIG_ERROR_LEN])
{
	const struct place variable = {.file = "URXE_CONFIG", .error = error};
	const char *named = getenv("URXE_CONFIG");
	const char *xdg = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");
	char path[4096] = "";
	int ret;

	if (named && *named) {
		ret = load_file(cfg, named, error);
		return ret == -ENOENT
			       ? bad(&variable, "there is no %.100s: correct or unset it", named)
			       : ret;
	}
	if (xdg && *xdg)
		snprintf(path, sizeof(path), "%s/urxe.conf", xdg);
	else if (home && *home)
		snprintf(path, sizeof(path), "%s/.config/urxe.conf", home);
	/* A HOME that is another user's, as su and sudo can leave it, has none of ours. */
	ret = *path && !hidden(path) ? load_file(cfg, path, error) : -ENOENT;
	if (ret == -ENOENT)
		ret = load_file(cfg, "/etc/urxe.conf", error);
	return ret == -ENOENT ? 0 : ret;
}

int urxe_config_load(struct urxe_config *cfg)
{
	char error[URXE_CONFIG_ERROR_LEN] = "out of memory";
	const char *devices = getenv("URXE_DEVICES");
	int ret;

	memset(cfg, 0, sizeof(*cfg));
	ret = load_files(cfg, error);
	if (!ret && devices && *devices)
		ret = urxe_config_parse_devices(cfg, devices, error);
	if (ret)
		urxe_log(URXE_LOG_ERROR, "%s", error);
	return ret;
}
