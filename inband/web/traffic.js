// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Counters of the whole network: scans, their sums as curves, and the ports that look worst.

import {el, plural} from './dom.js';
import {get} from './api.js';
import {model} from './model.js';
import {endLink, table} from './device.js';
import {chart} from './charts.js';

const CURVES = [[6, 7], [2, 3, 9]];

export function show(to) {
	let alive = true;
	const state = el('span', {class: 'dim'}), worst = el('div', {}), boxes = CURVES.map(() => el('div', {class: 'chart'}));
	const loop = el('input', {type: 'checkbox', checked: true});
	to.append(el('p', {class: 'row'}, el('label', {}, loop, ' look at all ports again and again '), state),
		el('h3', {}, 'sent and received'), boxes[0], el('h3', {}, 'trouble'), boxes[1], el('h2', {}, 'Ports that look worst'), worst);
	const run = async () => {
		let charts = null;
		while (alive) {
			if (!loop.checked) {
				await new Promise(resolve => setTimeout(resolve, 300));
				continue;
			}
			state.textContent ||= 'scanning …';
			const answer = await get('scan', {compare: 1000, worst: 20});
			if (!alive)
				return;
			const names = Object.keys(answer.sums);
			charts ??= await Promise.all(CURVES.map((list, c) => chart(boxes[c], ['time', ...list.map(n => names[n - 1])])));
			CURVES.forEach((list, c) => charts[c]?.add([new Date(), ...list.map(n => answer.sums[names[n - 1]])]));
			state.textContent = `${plural(answer.switches, 'switch chip')} in ${answer.seconds.toFixed(3)} s of the network’s time, in one second: `
				+ `${plural(answer.bad_ports, 'port')} with trouble${answer.silent ? `, ${answer.silent} silent` : ''}`;
			worst.replaceChildren(answer.worst.length ? table(['port', ...names], answer.worst.map(row => [endLink(row.port), ...names.map(name => String(row[name]))]), {class: 'ports'})
				: el('p', {class: 'good'}, 'No port has had any in this second.'));
		}
	};
	run().catch(error => { state.textContent = error.message; });
	return {end: () => { alive = false; }};
}
