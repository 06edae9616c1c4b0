// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Charts by dygraphs, Debian's, which is loaded when the first is wanted.

import {colours, el} from './dom.js';

let loading = null;

function load() {
	loading ??= new Promise((resolve, reject) => {
		document.head.append(el('link', {rel: 'stylesheet', href: 'dygraphs/dygraph.min.css'}),
			el('script', {src: 'dygraphs/dygraph.min.js', onload: () => resolve(globalThis.Dygraph),
				onerror: () => reject(new Error('charts need dygraphs on the server: apt-get install libjs-dygraphs'))}));
	});
	return loading;
}

// A chart that rows are added to, the oldest of which go; null if there is no dygraphs.
export async function chart(box, labels, most = 600) {
	const Dygraph = await load().catch(error => (box.append(el('p', {class: 'dim'}, error.message)), null));
	if (!Dygraph)
		return null;
	const colour = colours();
	const rows = [[new Date(), ...labels.slice(1).map(() => null)]];
	const graph = new Dygraph(box, rows, {labels, legend: labels.length > 8 ? 'onmouseover' : 'always', strokeWidth: 1.5, gridLineColor: colour('line'),
		axisLineColor: colour('edge'), labelsKMB: true, includeZero: true, highlightCircleSize: 3, axisLabelFontSize: 11,
		highlightSeriesOpts: {strokeWidth: 2.5}, connectSeparatedPoints: true});
	return {
		add(row) {
			rows.push(row);
			if (rows.length > most)
				rows.shift();
			graph.updateOptions({file: rows});
		},
	};
}
