/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The command line. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traffic.h"

#define MAGIC	  0x74726633 /* changes with struct config, qp_info or msg */
#define MAX_BYTES (8u << 20)

static const char usage_text[] =
	"Verifies every byte, completion and count of random verbs operations between two ends.\n"
	"\n"
	"  traffic --server [--port N]                 waits for a client, serves it, ends\n"
	"  traffic --client HOST [--port N] OPTIONS    both ends do what the client's options say\n"
	"  traffic --self OPTIONS                      both ends in this process\n"
	"  traffic --procs N OPTIONS                   N pairs of processes (also with --self,\n"
	"                                              --server and --client: ports N, N + 1, "
	"...)\n"
	"\n"
	"  --dev NAME --gid-index N    default: first device; first IPv4 GID, else GID 0\n"
	"  --qp-type rc|uc|ud          rc\n"
	"  --qps N --threads N         4 QPs, 1 thread at each end\n"
	"  --ops N                     operations of each QP in each direction (1000)\n"
	"  --seed N                    1\n"
	"  --min-size N --max-size N   bytes, up to 8388608 (0 and 1048576; uc 65536; ud the MTU)\n"
	"  --mtu N                     256 ... 4096; default: the port's\n"
	"  --sge-max N --depth N       4 pieces, 64 work requests a queue\n"
	"  --mix OP,OP,...             "
	"send,send_imm,send_inv,write,write_imm,read,cas,fadd,bind_mw\n"
	"  --inline N                  bytes (64)\n"
	"  --srq                       one shared receive queue for the QPs of a thread\n"
	"  --events                    sleep on completion channels instead of polling\n"
	"  --api post|wr --cq wc|ex    ibv_post_send or ibv_wr_*; ibv_poll_cq or ibv_start_poll\n"
	"  --timeout N --retry N       QP attributes: 14 and 7\n"
	"  --rnr N --rnr-timer N       QP attributes: 7 and 1\n"
	"  --no-fence                  what would be fenced waits for completions before it is "
	"posted\n"
	"  --rd-atomic N               outstanding reads and atomics (16, or what the device has)\n"
	"  --max-loss PERCENT          uc, ud: messages that may be missing (50)\n"
	"  --allow-dup                 ud: the network may duplicate datagrams\n"
	"  --time-limit SECONDS        120; then the state of each QP and exit status 2\n"
	"\n"
	"Exit status: 0 all verified, 1 a mismatch or an error, 2 a hang.\n";

enum {
	O_SERVER = 256,
	O_CLIENT,
	O_SELF,
	O_PROCS,
	O_PORT,
	O_DEV,
	O_GID,
	O_TYPE,
	O_QPS,
	O_THREADS,
	O_OPS,
	O_SEED,
	O_MIN,
	O_MAX,
	O_MTU,
	O_SGE,
	O_DEPTH,
	O_MIX,
	O_INLINE,
	O_SRQ,
	O_EVENTS,
	O_API,
	O_CQ,
	O_TIMEOUT,
	O_RETRY,
	O_RNR,
	O_RNR_TIMER,
	O_NO_FENCE,
	O_RD_ATOMIC,
	O_LOSS,
	O_DUP,
	O_LIMIT,
	O_HELP,
};

static const struct option long_options[] = {
	{"server", 0, NULL, O_SERVER},
	{"client", 1, NULL, O_CLIENT},
	{"self", 0, NULL, O_SELF},
	{"procs", 1, NULL, O_PROCS},
	{"port", 1, NULL, O_PORT},
	{"dev", 1, NULL, O_DEV},
	{"gid-index", 1, NULL, O_GID},
	{"qp-type", 1, NULL, O_TYPE},
	{"qps", 1, NULL, O_QPS},
	{"threads", 1, NULL, O_THREADS},
	{"ops", 1, NULL, O_OPS},
	{"seed", 1, NULL, O_SEED},
	{"min-size", 1, NULL, O_MIN},
	{"max-size", 1, NULL, O_MAX},
	{"mtu", 1, NULL, O_MTU},
	{"sge-max", 1, NULL, O_SGE},
	{"depth", 1, NULL, O_DEPTH},
	{"mix", 1, NULL, O_MIX},
	{"inline", 1, NULL, O_INLINE},
	{"srq", 0, NULL, O_SRQ},
	{"events", 0, NULL, O_EVENTS},
	{"api", 1, NULL, O_API},
	{"cq", 1, NULL, O_CQ},
	{"timeout", 1, NULL, O_TIMEOUT},
	{"retry", 1, NULL, O_RETRY},
	{"rnr", 1, NULL, O_RNR},
	{"rnr-timer", 1, NULL, O_RNR_TIMER},
	{"no-fence", 0, NULL, O_NO_FENCE},
	{"rd-atomic", 1, NULL, O_RD_ATOMIC},
	{"max-loss", 1, NULL, O_LOSS},
	{"allow-dup", 0, NULL, O_DUP},
	{"time-limit", 1, NULL, O_LIMIT},
	{"help", 0, NULL, O_HELP},
	{NULL, 0, NULL, 0},
};

static void __attribute__((noreturn)) usage_error(const char *text, const char *arg)
{
	fprintf(stderr, "traffic: %s%s%s; try --help\n", text, arg ? ": " : "", arg ? arg : "");
	exit(FATAL_STATUS);
}

static uint64_t number(const char *text, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (*end || end == text || n < least || n > most)
		usage_error("number out of range", text);
	return n;
}

static uint32_t parse_mix(char *text)
{
	char *save, *name;
	uint32_t mix = 0;
	unsigned k;

	for (name = strtok_r(text, ",", &save); name; name = strtok_r(NULL, ",", &save)) {
		for (k = 0; k < OP_KINDS && strcmp(name, kind_names[k]); k++)
			;
		if (k == OP_KINDS)
			usage_error("no such operation", name);
		mix |= 1u << k;
	}
	return mix;
}

static uint32_t parse_type(const char *text)
{
	if (!strcmp(text, "rc"))
		return IBV_QPT_RC;
	if (!strcmp(text, "uc"))
		return IBV_QPT_UC;
	if (!strcmp(text, "ud"))
		return IBV_QPT_UD;
	usage_error("no such QP type", text);
}

/* Is it the second? */
static bool one_of(const char *text, const char *first, const char *second)
{
	if (strcmp(text, first) && strcmp(text, second))
		usage_error("no such choice", text);
	return !strcmp(text, second);
}

static void parse_config(int opt, char *arg, struct config *cfg)
{
	switch (opt) {
	case O_TYPE: cfg->qp_type = parse_type(arg); break;
	case O_QPS: cfg->qps = number(arg, 1, 100000); break;
	case O_THREADS: cfg->threads = number(arg, 1, MAX_THREADS); break;
	case O_OPS: cfg->ops = number(arg, 1, 1u << 30); break;
	case O_SEED: cfg->seed = number(arg, 0, UINT64_MAX); break;
	case O_MIN: cfg->min_size = number(arg, 0, MAX_BYTES); break;
	case O_MAX: cfg->max_size = number(arg, 0, MAX_BYTES); break;
	case O_MTU: cfg->mtu = number(arg, 256, 4096); break;
	case O_SGE: cfg->sge_max = number(arg, 1, MAX_SGE); break;
	case O_DEPTH: cfg->depth = number(arg, 2, 16384); break;
	case O_MIX: cfg->mix = parse_mix(arg); break;
	case O_INLINE: cfg->inline_max = number(arg, 0, 65536); break;
	case O_SRQ: cfg->srq = 1; break;
	case O_TIMEOUT: cfg->timeout = number(arg, 0, 31); break;
	case O_RETRY: cfg->retry = number(arg, 0, 7); break;
	case O_RNR: cfg->rnr_retry = number(arg, 0, 7); break;
	case O_RNR_TIMER: cfg->rnr_timer = number(arg, 0, 31); break;
	case O_NO_FENCE: cfg->no_fence = true; break;
	case O_RD_ATOMIC: cfg->rd_atomic = number(arg, 1, 255); break;
	default: usage_error("unknown option", NULL);
	}
}

void options_parse(int argc, char **argv, struct options *opt)
{
	struct config *cfg = &opt->cfg;
	int o;

	*opt = (struct options){.gid_index = -1, .port = 18600, .time_limit = 120, .max_loss = 50};
	*cfg = (struct config){
		.magic = MAGIC,
		.qp_type = IBV_QPT_RC,
		.seed = 1,
		.qps = 4,
		.threads = 1,
		.ops = 1000,
		.max_size = UINT32_MAX,
		.sge_max = 4,
		.depth = 64,
		.inline_max = 64,
		.timeout = 14,
		.retry = 7,
		.rnr_retry = 7,
		.rnr_timer = 1,
		.rd_atomic = 16,
	};
	while ((o = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (o) {
		case O_SERVER: opt->server = true; break;
		case O_CLIENT:
			opt->client = true;
			opt->host = optarg;
			break;
		case O_SELF: opt->self = true; break;
		case O_PROCS: opt->procs = number(optarg, 1, 1000); break;
		case O_PORT: opt->port = number(optarg, 1, 65535); break;
		case O_DEV: opt->dev = optarg; break;
		case O_GID: opt->gid_index = number(optarg, 0, 65535); break;
		case O_EVENTS: opt->events = true; break;
		case O_API: opt->api_wr = one_of(optarg, "post", "wr"); break;
		case O_CQ: opt->cq_ex = one_of(optarg, "wc", "ex"); break;
		case O_LOSS: opt->max_loss = number(optarg, 0, 100); break;
		case O_DUP: opt->allow_dup = true; break;
		case O_LIMIT: opt->time_limit = number(optarg, 0, 1000000); break;
		case O_HELP: fputs(usage_text, stdout); exit(0);
		default: parse_config(o, optarg, cfg);
		}
	}
	if (optind < argc)
		usage_error("unknown argument", argv[optind]);
	if (opt->server + opt->client + opt->self > 1 ||
	    !(opt->server || opt->client || opt->self || opt->procs))
		usage_error("one of --server, --client HOST, --self or --procs N", NULL);
	if (cfg->threads > cfg->qps)
		usage_error("more threads than QPs", NULL);
}

/* What follows from the rest once the MTU is known; at the client, before it tells the server. */
void config_finish(struct config *cfg)
{
	static const uint32_t uc =
		1u << OP_SEND | 1u << OP_SEND_IMM | 1u << OP_WRITE | 1u << OP_WRITE_IMM;
	uint32_t most = MAX_BYTES, all = (1u << OP_KINDS) - 1, fits;

	if (cfg->qp_type == IBV_QPT_UD) {
		most = cfg->mtu;
		all = 1u << OP_SEND | 1u << OP_SEND_IMM;
	} else if (cfg->qp_type == IBV_QPT_UC) {
		all = uc;
	}
	if (cfg->max_size == UINT32_MAX)
		cfg->max_size = cfg->qp_type == IBV_QPT_RC   ? 1 << 20
				: cfg->qp_type == IBV_QPT_UC ? 1 << 16
							     : most;
	if (cfg->max_size > most || cfg->min_size > cfg->max_size)
		usage_error("sizes do not fit the QP type or each other", NULL);
	if (cfg->mix & ~all)
		usage_error("an operation of --mix does not fit the QP type", NULL);
	if (!cfg->mix)
		cfg->mix = all;
	cfg->round = cfg->depth < MAX_ROUND ? cfg->depth : MAX_ROUND;
	if (lossy(cfg)) { /* every message of a round has its receive posted beforehand */
		fits = (32u << 20) / (cfg->max_size + 1024);
		if (cfg->round > 32)
			cfg->round = 32;
		if (cfg->round > fits)
			cfg->round = fits;
	}
}
