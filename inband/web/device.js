// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// One device: what it says of itself, its ports, registers, configuration, routes and traffic. What the network's
// devices do not have is not shown.

import {el, svg, opens, tip, plural} from './dom.js';
import {get, post} from './api.js';
import {model, SWITCH, NODE, NONE, NOWHERE, COMPUTE, MISSING} from './model.js';
import {hashOf} from './machine.js';
import {isOperator} from './role.js';
import {chart} from './charts.js';

const hex = value => typeof value === 'string' ? value.replace(/^0x0+(?=.)/, '0x') : '0x' + value.toString(16);
const deviceHash = (i, port) => `#device/${encodeURIComponent(model.names[i])}${port === undefined ? '' : '/' + port}`;
export const link = (i, port) => el('a', {href: deviceHash(i, port)}, model.names[i] + (port === undefined ? '' : `:${port}`));

function endLink(text) {
	const [device, port] = model.end(text);
	return device < 0 ? text : link(device, port);
}
export {endLink};

function table(heads, rows, attributes = {}) {
	return el('table', attributes, el('thead', {}, el('tr', {}, heads.map(head => el('th', {}, head)))),
		el('tbody', {}, rows.map(row => row instanceof Node ? row : el('tr', {}, row.map(cell => el('td', {}, cell))))));
}
export {table};

/* ---- ports ---- */

// 2^46 and the like are shown short.
const short = n => n < 100000 ? String(n) : n < 1e8 ? (n / 1e6).toFixed(1) + ' M' : (n / 1e9).toFixed(1) + ' G';

function portsTab(to, i, chosen, answer) {
	const columns = answer?.counters.slice(1) ?? [];
	const words = [];
	const rows = [...model.portsOf(i)].map(([p, peer, peerPort]) => {
		const word = el('span', {}), counters = answer?.list?.[p];
		words.push(() => {
			word.className = `state ${model.portWord(i, p)}`;
			word.textContent = {up: 'up', lost: 'lost', light: 'no handshake', testing: 'self-test', none: 'no light'}[model.portWord(i, p)];
		});
		return el('tr', {class: p === chosen ? 'chosen' : '', 'data-row': p}, el('td', {class: 'n'}, String(p)), el('td', {}, word),
			el('td', {}, peer === NONE ? '' : link(peer, peerPort)), el('td', {}, model.optical(i, p) ? 'optical' : peer === NONE ? '' : 'board'),
			columns.map((_, n) => el('td', {class: `n${n < 3 && n > 0 && counters?.[n + 1] ? ' hot' : ''}`}, counters ? short(counters[n + 1]) : '')),
			el('td', {}, isOperator() && model.can.has('write') && peer !== NONE && model.type[peer] === SWITCH && model.type[i] === SWITCH
				? el('button', {onclick: event => selfTest(event.target, i, p)}, 'test') : null));
	});
	to.append(table(['port', 'link', 'to', 'cable', ...columns, ''], rows, {class: 'ports'}));
	const paint = () => words.forEach(word => word());
	paint();
	to.querySelector('tr.chosen')?.scrollIntoView({block: 'nearest'});
	return paint;
}

async function selfTest(button, i, p) {
	button.disabled = true;
	button.textContent = '…';
	try {
		const {ends} = await post('bist', {port: `${model.names[i]}:${p}`, ms: 1000});
		button.textContent = ends.map(end => `${end.state}, ${end.errors} errors`).join(' / ');
	} catch (refused) {
		button.textContent = refused.message;
	}
}

/* ---- registers and configuration ---- */

async function registersTab(to, i, chosen) {
	const name = model.names[i];
	const parts = [[`Of the chip`, await get('registers', {chip: name})]];
	if (chosen !== undefined)
		parts.push([`Of port ${chosen}`, await get('registers', {chip: name, port: chosen})]);
	to.append(el('div', {class: 'columns'}, parts.map(([title, {list}]) => el('section', {}, el('h3', {}, title),
		table(['address', 'name', 'value'], list.sort((a, b) => a.address - b.address).map(register => el('tr', {},
			el('td', {class: 'code'}, '0x' + register.address.toString(16).padStart(4, '0')), el('td', {}, register.name),
			el('td', {class: 'code'}, register.value))))))));
	if (chosen === undefined)
		to.append(el('p', {class: 'dim'}, 'A port’s registers are shown when the port is chosen.'));
	if (!isOperator() || !model.can.has('write'))
		return;
	const address = el('input', {placeholder: 'address, 0x4', size: 14, 'aria-label': 'address'});
	const value = el('input', {placeholder: 'value, 0x0', size: 22, 'aria-label': 'value'});
	const said = el('span', {class: 'dim'});
	to.append(el('form', {class: 'row', onsubmit: async event => {
		event.preventDefault();
		try {
			await post('write', {chip: name, address: Number(address.value), value: Number(value.value)});
			said.textContent = ' written, once';
		} catch (refused) {
			said.textContent = ' ' + refused.message;
		}
	}}, address, ' ', value, ' ', el('button', {}, 'Write'), said));
}

const FAULTS = [, 'link down', 'link up', 'link width', 'retries', 'temperature', 'reset'];
const bits = value => FAULTS.filter((_, n) => n && Number(BigInt(value) >> BigInt(n) & 1n)).join(', ') || 'none';

async function configurationTab(to, i) {
	const {list} = await get('registers', {chip: model.names[i]});
	const value = name => list.find(register => register.name === name)?.value;
	const report = BigInt(value('report to') ?? 0), frame = BigInt(value('frame') ?? 0xffff);
	const hops = [], route = [BigInt(value('report route 0') ?? 0), BigInt(value('report route 1') ?? 0)];
	for (let n = 0; n < Number(route[0] & 31n); n++)
		hops.push(Number((n < 11 ? route[0] >> BigInt(5 + 5 * n) : route[1] >> BigInt(5 * (n - 11))) & 31n));
	to.append(table(['what', 'is'], [
		['Faults that are reported', bits(value('fault enable') ?? 0)],
		['Faults that are masked', bits(value('fault mask') ?? 0)],
		['Faults that have happened', bits(value('fault status') ?? 0)],
		['Reports go to', report >> 31n & 1n ? `NIC ${report & 0xfffffn}, VP ${report >> 20n & 0x7ffn}` : 'nobody'],
		['by the ports', hops.join(' › ') || 'none'],
		['Own frame', (frame & 0xffffn) === 0xffffn ? 'none' : `${frame & 0xffffn}, of ${frame >> 16n & 0xffn} nodes`],
		['Route tables', Number(BigInt(value('status') ?? 0) & 4n) ? 'from the EEPROM' : 'written by a server, or none'],
	], {class: 'facts'}));
}

/* ---- the plan: what is to be, which may be edited, and not what is ---- */

const PLACE = ['row', 'cabinet', 'frame', 'board', 'position'];

async function planTab(to, i, chosen) {
	const chip = model.names[i], planned = await get('planned', {chip});
	const may = isOperator() && planned.may_edit;
	const rows = ['computer cabinets', 'leaf cabinets', 'root cabinets', 'none'];
	const fields = {
		name: el('input', {value: planned.name, size: 24, disabled: !may}),
		row: el('select', {disabled: !may}, rows.map((text, n) => el('option', {value: n, selected: n === planned.row}, text))),
	};
	for (const key of PLACE.slice(1))
		fields[key] = el('input', {value: planned[key], size: 6, disabled: !may});
	if (chosen !== undefined)
		fields.to = el('input', {value: planned.cables[chosen] ?? '', size: 24, disabled: !may, placeholder: 'no cable'});
	const said = el('span', {class: 'bad'});
	const save = async event => {
		event.preventDefault();
		const change = {chip};
		if (fields.name.value !== planned.name)
			change.name = fields.name.value;
		for (const key of PLACE)
			change[key] = Number(fields[key].value);
		if (fields.to && fields.to.value !== planned.cables[chosen])
			Object.assign(change, {port: chosen, to: fields.to.value});
		try {
			await post('edit', change);
			location.hash = `#device/${encodeURIComponent(change.name ?? chip)}/${chosen ?? '-'}/plan`;
		} catch (refused) {
			said.textContent = refused.message;
		}
	};
	to.append(el('form', {class: 'plan', onsubmit: save}, table(['what', 'is planned', 'was found'], [
		['name', fields.name, ''],
		...PLACE.map(key => [key, fields[key], '']),
		...fields.to ? [[`cable of port ${chosen}`, fields.to, foundAt(i, chosen)]] : [],
	], {class: 'facts'}), may ? el('p', {class: 'row'}, el('button', {class: 'main'}, 'Save'), said)
		: el('p', {class: 'dim'}, planned.may_edit ? 'An operator may edit it.' : 'It may be edited where plan_file is set.')));
	if (chosen === undefined)
		to.append(el('p', {class: 'dim'}, 'A port’s cable is shown when the port is chosen.'));
}

function foundAt(i, port) {
	const at = model.first[i] + port, peer = model.peer[at];
	return peer === NONE ? 'nothing' : `${model.names[peer]}:${model.peerPort[at]}`;
}

/* ---- routes ---- */

// Far from one another, and from red, which says that something is wrong.
const COLOURS = ['#4fb3a5', '#d9b25f', '#6f9fd8', '#b58ad9', '#7fb069', '#d98f6f', '#5fc3dd', '#c77fa8'];
const wheel = n => COLOURS[n] ?? `hsl(${45 + n * 137.5 % 270} 32% ${40 + n % 3 * 9}%)`;

async function routesTab(to, i, chosen = 0) {
	const choose = el('select', {'aria-label': 'input port'}, [...model.portsOf(i)].filter(p => p[1] !== NONE)
		.map(([p]) => el('option', {value: p, selected: p === chosen}, `port ${p}`)));
	const box = el('div', {});
	to.append(el('p', {class: 'row'}, 'Packets that come in by ', choose, ' leave by:'), box);
	const draw = async () => {
		const {list, frame_nodes: frames} = await get('table', {chip: model.names[i], port: choose.value});
		const groups = new Map();
		for (const entry of list) {
			entry[1] = entry[1].join(', ');
			groups.set(entry[1], (groups.get(entry[1]) ?? 0) + 1);
		}
		const order = [...groups.keys()].sort((a, b) => a.localeCompare(b, 'en', {numeric: true}));
		const colour = ports => ports ? wheel(order.indexOf(ports)) : 'var(--none)';
		const text = ports => ports ? `port ${ports}` : 'no port';
		list.sort((a, b) => Number(model.id[a[0]] - model.id[b[0]]));
		const columns = 48, size = 22, picture = svg('svg', {class: 'table', viewBox: `0 0 ${columns * size} ${Math.ceil(list.length / columns) * size}`});
		list.forEach(([node, ports], n) => picture.append(opens(tip(svg('rect', {x: n % columns * size + 1, y: Math.floor(n / columns) * size + 1,
			width: size - 2, height: size - 2, rx: 3, fill: colour(ports)}),
		() => `${frames ? `frame ${Number(model.id[node]) / frames} (${model.names[node]} …)` : model.names[node]}: ${text(ports)}`), deviceHash(node))));
		box.replaceChildren(picture, el('p', {class: 'dim'}, frames ? `A square is a frame of ${frames} nodes.` : 'A square is a node.'),
			el('div', {class: 'legend'}, order.slice(0, 24).map(ports => {
				const entry = el('span', {class: 'free'}, `${text(ports)} · ${groups.get(ports)}`);
				entry.style.setProperty('--colour', colour(ports));
				return entry;
			}), order.length > 24 ? el('span', {class: 'free'}, `and ${order.length - 24} more`) : null));
	};
	choose.onchange = draw;
	await draw();
}

/* ---- traffic ---- */

async function trafficTab(to, i, chosen, still) {
	const linked = [...model.portsOf(i)].filter(p => p[1] !== NONE).map(p => p[0]);
	const ports = chosen === undefined ? linked : [chosen];
	const first = await get('device', {chip: model.names[i]});
	const wanted = [6, 7, 2, 8].filter(n => first.counters[n]);
	const charts = await Promise.all(wanted.map(n => {
		const box = el('div', {class: 'chart'});
		to.append(el('h3', {}, `${first.counters[n]} a second`), box);
		return chart(box, ['time', ...ports.map(p => `port ${p}`)]);
	}));
	if (chosen === undefined)
		to.append(el('p', {class: 'dim'}, 'All ports; choose one for its own curve.'));
	let before = first, at = performance.now();
	while (still()) {
		await new Promise(resolve => setTimeout(resolve, 1000));
		if (!still())
			return;
		const now = await get('device', {chip: model.names[i]}), then = performance.now();
		wanted.forEach((n, c) => charts[c]?.add([new Date(), ...ports.map(p =>
			Math.max(0, now.list[p][n] - before.list[p][n]) * 1000 / (then - at))]));
		[before, at] = [now, then];
	}
}

/* ---- the whole ---- */

function trail(i) {
	const parts = [el('a', {href: '#machine'}, 'machine')];
	if (model.row[i] !== NOWHERE) {
		parts.push(' › ', el('a', {href: `#machine/${model.row[i]}/${model.cabinet[i]}`}, `${['computer', 'leaf', 'root'][model.row[i]]} cabinet ${model.cabinet[i]}`),
			' › ', el('a', {href: hashOf(i)}, model.row[i] === COMPUTE ? `frame ${model.frame[i]}` : `board ${model.board[i]}`));
	}
	return el('p', {class: 'crumbs'}, ...parts, ' › ', model.names[i]);
}

function uptime(us) {
	const s = us / 1e6;
	return s < 120 ? `${s.toFixed(1)} s` : s < 7200 ? `${(s / 60).toFixed(0)} min` : `${(s / 3600).toFixed(1)} h`;
}

export function show(to, words) {
	const i = model.number(words[0] ?? ''), chosen = /^\d+$/.test(words[1] ?? '') ? Number(words[1]) : undefined;
	if (i < 0) {
		to.append(el('p', {class: 'empty'}, `There is no ${words[0]}.`));
		return {};
	}
	const base = deviceHash(i, chosen ?? '-');
	const tabs = [['ports', 'Ports', true],
		['registers', 'Registers', model.can.has('registers')],
		['configuration', 'Configuration', model.can.has('registers')],
		['plan', 'Plan', !!model.head.plan],
		['routes', 'Routes', model.can.has('route') && model.type[i] === SWITCH],
		['traffic', 'Traffic', model.can.has('counters')]].filter(tab => tab[2]);
	const tab = tabs.find(([name]) => name === words[2])?.[0] ?? 'ports';
	const facts = el('span', {class: 'dim'}), body = el('div', {});
	let alive = true, paint = () => {}, polling = null;
	to.append(trail(i), el('h2', {class: 'device'}, model.names[i], chosen === undefined ? '' : `, port ${chosen} `, el('small', {}, facts)),
		el('nav', {class: 'tabs'}, tabs.map(([name, title]) => el('a', {href: `${base}/${name}`, class: name === tab ? 'here' : ''}, title))), body);
	facts.textContent = `${model.type[i] === SWITCH ? 'switch chip' : 'node'} ${hex(model.id[i])}, ${plural(model.hops[i], 'hop')} from the server`;
	if (model.state[i] === MISSING && tab !== 'plan') {
		facts.textContent = 'in the plan, and not found';
		paint = portsTab(body, i, chosen, null);
		return {paint};
	}
	const fail = error => alive && body.append(el('p', {class: 'bad'}, error.message));
	const run = {
		ports: async () => {
			const answer = model.can.has('counters') ? await get('device', {chip: model.names[i]}).catch(error => (fail(error), null)) : null;
			if (!alive)
				return;
			if (answer?.uptime_us !== undefined)
				facts.textContent += `, ${answer.temperature.toFixed(1)} °C, up for ${uptime(answer.uptime_us)}`;
			paint = portsTab(body, i, chosen, answer);
		},
		registers: () => registersTab(body, i, chosen),
		configuration: () => configurationTab(body, i),
		plan: () => planTab(body, i, chosen),
		routes: () => routesTab(body, i, chosen),
		traffic: () => trafficTab(body, i, chosen, () => alive),
	}[tab];
	run().catch(fail);
	return {paint: () => paint(), end: () => { alive = false; clearTimeout(polling); }};
}
