/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Slowdown by flow size as SVG: averages solid, 99th percentiles dashed, one colour a method. The
 * bands are twentieths of the flows, as in the papers that are compared.
 */
#include "reorder/sim/sim.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define WIDTH  760
#define HEIGHT 460
#define LEFT   60
#define TOP    40
#define WIDE   520
#define HIGH   350

static const char *const colours[] = {"#888888", "#e69f00", "#009e73", "#56b4e9",
				      "#d55e00", "#0072b2", "#cc79a7", "#000000"};

static double y_of(double slowdown, double most)
{
	return TOP + HIGH - HIGH * log(slowdown < 1 ? 1 : slowdown) / log(most);
}

static double x_of(unsigned band)
{
	return LEFT + WIDE * (band + 0.5) / FCT_BANDS;
}

static void line(FILE *out, const uint64_t *values, double most, const char *colour, bool dashed)
{
	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s points=\"", colour,
		dashed ? " stroke-dasharray=\"5 4\"" : "");
	for (unsigned b = 0; b < FCT_BANDS; b++)
		if (values[b])
			fprintf(out, "%.1f,%.1f ", x_of(b), y_of((double)values[b] / 1e3, most));
	fprintf(out, "\"/>\n");
}

static void axes(FILE *out, const struct result *r, double most)
{
	static const double ticks[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};

	for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]) && ticks[i] <= most; i++)
		fprintf(out,
			"<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
			"<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			LEFT, LEFT + WIDE, y_of(ticks[i], most), y_of(ticks[i], most), LEFT - 6,
			y_of(ticks[i], most) + 4, ticks[i]);
	for (unsigned b = 1; b < FCT_BANDS; b += 2)
		fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.3g</text>\n",
			x_of(b), TOP + HIGH + 16, (double)r->band_size[b] / 1e3);
	fprintf(out,
		"<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">flow size up to (KB), each band 5 "
		"%% "
		"of the flows</text>\n",
		LEFT + WIDE / 2, TOP + HIGH + 38);
	fprintf(out,
		"<text x=\"%d\" y=\"%d\">FCT slowdown: average, and 99th percentile "
		"(dashed)</text>\n",
		LEFT, TOP - 14);
}

int plot_fct(const struct options *o, const struct result *results, unsigned n)
{
	FILE *out = fopen(o->plot, "w");
	double most = 2;
	unsigned drawn = 0;

	if (!out) {
		fprintf(stderr, "fabric-sim: %s: %s\n", o->plot, strerror(errno));
		return -errno;
	}
	for (unsigned i = 0; i < n; i++)
		for (unsigned b = 0; b < FCT_BANDS; b++)
			most = fmax(most, (double)results[i].band_p99[b] / 1e3);
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" "
		"height=\"100%%\" fill=\"white\"/>\n",
		WIDTH, HEIGHT);
	axes(out, results, most);
	for (unsigned i = 0; i < n && drawn < 8; i++) {
		const struct result *r = &results[i];

		if (r->seed != o->seed_list[0] || r->load != results[0].load ||
		    strcmp(r->traffic, results[0].traffic))
			continue;
		line(out, r->band_average, most, colours[drawn], false);
		line(out, r->band_p99, most, colours[drawn], true);
		fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s", LEFT + WIDE + 14,
			TOP + 16 * (int)drawn + 10, colours[drawn], r->method);
		if (r->queues)
			fprintf(out, ", %u queues", r->queues);
		fprintf(out, "</text>\n");
		drawn++;
	}
	fprintf(out, "</svg>\n");
	return fclose(out) ? -EIO : 0;
}
