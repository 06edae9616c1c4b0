// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The machine as it stands: cabinets, then a cabinet's frames, then a frame's switch, then its chips and ports.

import {el, svg, opens, tip, plural} from './dom.js';
import {model, NODE, SWITCH, NONE, COMPUTE, LEAF, ROOT, NOWHERE, ROWS, MISSING} from './model.js';

const heat = n => n === 0 ? 'well' : n < 3 ? 'warm' : n < 12 ? 'hot' : 'burning';

// What is painted anew when states change: [element, function that gives its class].
class Painted {
	list = [];
	add(element, word) {
		this.list.push([element, word, element.getAttribute('class') ?? '']);
		return element;
	}
	paint = () => {
		for (const [element, word, base] of this.list)
			element.setAttribute('class', `${base} ${word()}`);
	};
}

function crumbs(...parts) {
	return el('p', {class: 'crumbs'}, ...parts.flatMap(([text, hash], i) =>
		[i ? ' › ' : null, hash ? el('a', {href: hash}, text) : el('span', {}, text)]));
}

const rowWord = ['computer cabinet', 'leaf cabinet', 'root cabinet'];
const cabinetName = (row, cabinet) => `${rowWord[row]} ${cabinet}`;
const frameWord = row => row === LEAF ? 'group' : 'frame';

/* ---- all cabinets ---- */

function strips(row, cabinet) {
	const keys = new Map();
	for (const i of model.devicesAt(`${row}.${cabinet}`)) {
		const key = row === ROOT ? `${row}.${cabinet}.${model.frame[i]}.${model.board[i]}` : `${row}.${cabinet}.${model.frame[i]}`;
		keys.set(key, true);
	}
	return [...keys.keys()].sort((a, b) => a.split('.').at(-1) - b.split('.').at(-1));
}

function cabinetPicture(painted, row, cabinet, x, y, width, height) {
	const key = `${row}.${cabinet}`, parts = strips(row, cabinet);
	const each = (height - 16) / parts.length;
	const box = svg('g', {transform: `translate(${x},${y})`, class: 'cabinet', 'data-cabinet': key});
	box.append(painted.add(svg('rect', {class: 'case', width, height, rx: 4}), () => heat(model.faultsAt(key))));
	parts.forEach((part, i) => box.append(painted.add(svg('rect',
		{class: 'strip', x: 3, y: 3 + i * each, width: width - 6, height: Math.max(each - (each > 4 ? 2 : .6), .8), rx: each > 6 ? 2 : 0}),
	() => heat(model.faultsAt(part)))));
	box.append(svg('text', {x: width / 2, y: height - 3.5, class: 'label'}, String(cabinet)));
	tip(box, () => `${cabinetName(row, cabinet)}: ${plural(model.devicesAt(key).filter(i => model.type[i] === SWITCH).length, 'switch chip')}, `
		+ `${plural(model.devicesAt(key).filter(i => model.type[i] === NODE).length, 'node')}, ${plural(model.faultsAt(key), 'fault')}`);
	return opens(box, `#machine/${row}/${cabinet}`);
}

function showCabinets(to, painted) {
	const rows = [COMPUTE, LEAF, ROOT].map(row => [row, [...new Set([...model.places.keys()]
		.filter(key => key.startsWith(row + '.')).map(key => Number(key.split('.')[1])))].sort((a, b) => a - b)]);
	const columns = 24, width = 44, height = 70, gap = 6;
	const picture = svg('svg', {class: 'cabinets', role: 'img', 'aria-label': 'cabinets'});
	let y = 0, from = 0;
	for (const [row, cabinets] of [rows[2], rows[1], rows[0]]) {
		if (!cabinets.length)
			continue;
		/* A few go beside those before them. */
		if (from && from + cabinets.length <= columns)
			y -= height + gap + 38;
		else
			from = 0;
		picture.append(svg('text', {x: from * (width + gap), y: y + 14, class: 'heading'}, `${ROWS[row]} · ${cabinets.length}`));
		y += 24;
		cabinets.forEach((cabinet, i) => picture.append(cabinetPicture(painted, row, cabinet,
			(from + i) % columns * (width + gap), y + Math.floor((from + i) / columns) * (height + gap), width, height)));
		y += Math.ceil((from + cabinets.length) / columns) * (height + gap) + 14;
		from = cabinets.length < columns ? from + cabinets.length : 0;
	}
	if (y) {
		picture.setAttribute('viewBox', `-1 0 ${columns * (width + gap) - gap + 2} ${y}`);
		to.append(picture);
	}
	showUnplaced(to, painted);
}

// What no plan gives a place: switches, the nearest to the nodes first.
function showUnplaced(to, painted) {
	const list = [];
	for (let i = 0; i < model.count; i++)
		if (model.row[i] === NOWHERE && model.type[i] === SWITCH)
			list.push(i);
	if (!list.length)
		return;
	if (model.places.size)
		to.append(el('h2', {}, 'Without a place in the plan'));
	for (const layer of [...new Set(list.map(i => model.layerOf[i]))].sort((a, b) => b - a)) {
		const here = list.filter(i => model.layerOf[i] === layer).sort((a, b) => a - b);
		to.append(el('h2', {}, `${layerTitle(layer)} · ${here.length}`), el('div', {class: 'tiles'}, here.map(i => switchTile(painted, i))));
	}
}

const layerTitle = layer => layer === 6 ? 'Switches without nodes below' : `Switches, ${['', 'first', 'second', 'third', 'fourth', 'fifth'][layer] ?? ''} layer`;

function switchTile(painted, i) {
	const ports = [...model.portsOf(i)].filter(([p]) => p || !model.portsFromOne);
	const columns = Math.min(ports.length, 20), strip = svg('svg', {viewBox: `0 0 ${columns * 7} ${Math.ceil(ports.length / columns) * 7}`, class: 'strip'});
	strip.style.maxWidth = `${columns * 9}px`;
	ports.forEach(([p], n) => strip.append(painted.add(svg('rect', {class: 'port', x: n % columns * 7, y: Math.floor(n / columns) * 7, width: 5.6, height: 5.6, rx: 1}),
		() => model.portWord(i, p))));
	return opens(painted.add(el('div', {class: 'tile'}, el('b', {}, model.names[i]), strip), () => model.deviceWord(i)), `#machine/chip/${encodeURIComponent(model.names[i])}`);
}

/* ---- a cabinet ---- */

function chipSquare(painted, i, x, y, size) {
	return painted.add(svg('rect', {x, y, width: size, height: size, rx: 3, class: 'chip'}), () => model.deviceWord(i));
}

// A frame: its switch chips, and its nodes two to a board.
function framePicture(painted, row, cabinet, frame) {
	const key = `${row}.${cabinet}.${frame}`, devices = model.devicesAt(key);
	const chips = devices.filter(i => model.type[i] === SWITCH), nodes = devices.filter(i => model.type[i] === NODE);
	const picture = svg('svg', {viewBox: `0 0 760 ${nodes.length ? 128 : 70}`, class: 'frame'});
	picture.append(painted.add(svg('rect', {class: 'case', width: 760, height: nodes.length ? 128 : 70, rx: 8}), () => heat(model.faultsAt(key))));
	picture.append(svg('text', {x: 14, y: 24, class: 'heading'}, `${frameWord(row)} ${frame}`));
	picture.append(svg('text', {x: 14, y: 42, class: 'small'}, `${plural(chips.length, 'chip')}${nodes.length ? `, ${plural(nodes.length, 'node')}` : ''}`));
	const many = chips.length > 12, size = many ? 24 : 34;
	chips.forEach((i, n) => picture.append(tip(chipSquare(painted, i, 130 + n * (size + (many ? 6 : 10)), many ? 22 : 14, size), () => model.names[i])));
	nodes.forEach((i, n) => picture.append(tip(painted.add(svg('rect',
		{class: 'node', x: 130 + Math.floor(n / 2) * 38, y: 66 + n % 2 * 26, width: 32, height: 20, rx: 3}),
	() => model.deviceWord(i)), () => model.names[i])));
	return picture;
}

function showCabinet(to, painted, row, cabinet) {
	to.append(crumbs(['machine', '#machine'], [cabinetName(row, cabinet)]));
	const boards = new Map();
	for (const i of model.devicesAt(`${row}.${cabinet}`))
		if (model.type[i] === SWITCH)
			boards.set(row === COMPUTE ? `${model.frame[i]}` : `${model.frame[i]}.${model.board[i]}`, [model.frame[i], model.board[i]]);
	if (row === COMPUTE) {
		to.append(el('div', {class: 'frames'}, [...boards.values()].map(([frame]) =>
			opens(framePicture(painted, row, cabinet, frame), `#machine/${row}/${cabinet}/${frame}`))));
		return;
	}
	to.append(el('div', {class: 'boards'}, [...boards.values()].map(([frame, board]) => {
		const key = `${row}.${cabinet}.${frame}.${board}`;
		const chips = model.devicesAt(key).filter(i => model.type[i] === SWITCH);
		const picture = svg('svg', {viewBox: '0 0 120 62', class: 'board'},
			painted.add(svg('rect', {class: 'case', width: 120, height: 62, rx: 6}), () => heat(model.faultsAt(key))),
			svg('text', {x: 8, y: 15, class: 'small'}, row === LEAF ? `group ${frame} · leaf ${board}` : `root switch ${board}`));
		chips.forEach((i, n) => picture.append(chipSquare(painted, i, 8 + (chips.length > 1 ? n * 18 : 0), 28, chips.length > 1 ? 14 : 22)));
		tip(picture, () => `${chips.length === 1 ? model.names[chips[0]] : plural(chips.length, 'chip')}: ${plural(model.faultsAt(key), 'fault')}`);
		return opens(picture, `#machine/${row}/${cabinet}/${frame}/${board}`);
	})));
}

/* ---- a switch: its chips, their ports, and the links between them ---- */

const CHIP = 224, HEIGHT = 112, PORT = 15;

// Ports of a chip by which side they are drawn on: those to chips above it, inside, are at its upper edge.
function portPlaces(chips, i, upper) {
	const inside = new Set(chips), sides = {inner: [], outer: []};
	for (const [p, peer] of model.portsOf(i))
		if (p || !model.portsFromOne)
			sides[peer !== NONE && (inside.has(peer) || chips.length === 1 && model.layerOf[peer] > model.layerOf[i]) ? 'inner' : 'outer'].push(p);
	sides.outer.sort((a, b) => (model.peer[model.first[i] + a] === NONE) - (model.peer[model.first[i] + b] === NONE) || a - b);
	const place = new Map();
	for (const [side, ports] of Object.entries(sides)) {
		const top = (side === 'inner') !== upper;
		const columns = Math.max(ports.length > 12 ? Math.ceil(ports.length / 2) : ports.length, 1), step = CHIP / columns;
		ports.forEach((p, n) => place.set(p, {
			x: n % columns * step + step / 2 - PORT / 2,
			y: top ? 6 + Math.floor(n / columns) * 19 : HEIGHT - 6 - PORT - Math.floor(n / columns) * 19,
			top,
		}));
	}
	return place;
}

function portSquare(painted, i, p, place) {
	const square = painted.add(svg('rect', {class: 'port', x: place.x, y: place.y, width: PORT, height: PORT, rx: 2.5,
		'data-port': `${model.names[i]}:${p}`}), () => model.portWord(i, p));
	tip(square, () => {
		const at = model.first[i] + p, peer = model.peer[at];
		return `${model.names[i]}:${p} ${model.portWord(i, p)}`
			+ (peer !== NONE ? ` — ${model.names[peer]}:${model.peerPort[at]}` : '');
	});
	return opens(square, `#device/${encodeURIComponent(model.names[i])}/${p}`);
}

function chipPicture(painted, chips, i, x, y, upper) {
	const places = portPlaces(chips, i, upper);
	const box = svg('g', {transform: `translate(${x},${y})`});
	box.append(opens(painted.add(svg('rect', {class: 'chipbox', width: CHIP, height: HEIGHT, rx: 8}), () => model.deviceWord(i)),
		`#device/${encodeURIComponent(model.names[i])}`));
	box.append(svg('text', {x: CHIP / 2, y: HEIGHT / 2 + 5, class: 'chipname'}, model.names[i]));
	for (const [p, place] of places)
		box.append(portSquare(painted, i, p, place));
	return [box, places];
}

function linkLines(painted, chips, where) {
	const lines = [];
	for (const i of chips)
		for (const [p, peer, peerPort] of model.portsOf(i)) {
			if (!where.has(peer) || peer < i || !where.get(peer).places.has(peerPort))
				continue;
			const end = (n, q) => {
				const {x, y, places} = where.get(n), place = places.get(q);
				return [x + place.x + PORT / 2, y + (place.top ? place.y : place.y + PORT)];
			};
			const [ax, ay] = end(i, p), [bx, by] = end(peer, peerPort);
			lines.push(painted.add(svg('path', {class: 'link', d: `M${ax} ${ay}C${ax} ${(ay + by) / 2} ${bx} ${(ay + by) / 2} ${bx} ${by}`}),
				() => model.portWord(i, p)));
		}
	return lines;
}

// The nodes of a frame below their edge chips, at the ports that lead to them.
function nodeRow(painted, chips, where, y) {
	const parts = [];
	for (const i of chips)
		for (const [p, peer] of model.portsOf(i)) {
			if (peer === NONE || model.type[peer] !== NODE || !where.get(i)?.places.has(p))
				continue;
			const {x, places} = where.get(i), place = places.get(p);
			const cx = x + place.x + PORT / 2;
			parts.push(painted.add(svg('path', {class: 'link', d: `M${cx} ${where.get(i).y + HEIGHT}V${y}`}), () => model.portWord(i, p)));
			parts.push(opens(tip(painted.add(svg('circle', {class: 'node', cx, cy: y + 7, r: 7}), () => model.deviceWord(peer)),
				() => model.names[peer]), `#device/${encodeURIComponent(model.names[peer])}`));
		}
	return parts;
}

function switchPicture(painted, chips) {
	const top = Math.max(...chips.map(i => model.layerOf[i]));
	const low = Math.min(...chips.map(i => model.layerOf[i]));
	const upper = chips.length > 1 && top !== low ? chips.filter(i => model.layerOf[i] === top) : [];
	const lower = chips.filter(i => !upper.includes(i));
	const columns = Math.max(upper.length, Math.min(lower.length, 6)), step = CHIP + 36, where = new Map();
	const width = columns * step - 36, lowerY = upper.length ? 270 : 20;
	const picture = svg('svg', {class: 'switch'}), boxes = [];
	const draw = (list, y, isUpper) => list.forEach((i, n) => {
		const x = (width - (Math.min(list.length, 6) * step - 36)) / 2 + n % 6 * step;
		const [box, places] = chipPicture(painted, chips, i, x, y + Math.floor(n / 6) * 150, isUpper);
		where.set(i, {x, y: y + Math.floor(n / 6) * 150, places});
		boxes.push(box);
	});
	draw(upper, 10, true);
	draw(lower, lowerY, false);
	const nodes = nodeRow(painted, lower, where, lowerY + HEIGHT + 40);
	picture.append(...linkLines(painted, chips, where), ...nodes, ...boxes);
	picture.setAttribute('viewBox', `-6 0 ${Math.max(width, 480) + 12} ${lowerY + Math.ceil(lower.length / 6) * 150 + (nodes.length ? 30 : 0)}`);
	if (columns === 1)
		picture.style.maxWidth = '520px';
	return picture;
}

const legend = () => el('p', {class: 'legend'}, ...[['up', 'up'], ['lost', 'lost'], ['light', 'no handshake'], ['testing', 'self-test'], ['none', 'no cable or no light']]
	.map(([word, text]) => el('span', {class: word}, text)));

// Which chips are at the other ends, most links first.
function farEnds(chips) {
	const inside = new Set(chips), far = new Map();
	for (const i of chips)
		for (const [p, peer] of model.portsOf(i))
			if (peer !== NONE && !inside.has(peer) && model.type[peer] === SWITCH)
				far.set(peer, [...far.get(peer) ?? [], `${i}:${p}`]);
	return far;
}

function showSwitch(to, painted, trail, chips) {
	to.append(crumbs(...trail));
	if (!chips.length) {
		to.append(el('p', {class: 'empty'}, 'Nothing stands there.'));
		return;
	}
	to.append(switchPicture(painted, chips), legend());
	const far = farEnds(chips);
	if (far.size)
		to.append(el('h2', {}, 'Cables to'), el('div', {class: 'tiles far'}, [...far].map(([peer, ends]) =>
			opens(painted.add(el('div', {class: 'tile'}, el('b', {}, model.names[peer]), el('small', {}, plural(ends.length, 'link'))),
				() => model.deviceWord(peer)), hashOf(peer)))));
}

// Where a device's switch is shown.
export function hashOf(i) {
	return model.row[i] === NOWHERE ? `#machine/chip/${encodeURIComponent(model.names[i])}`
		: `#machine/${model.row[i]}/${model.cabinet[i]}/${model.frame[i]}`
			+ (model.row[i] === COMPUTE ? '' : `/${model.board[i]}`);
}

export function show(to, words) {
	const painted = new Painted();
	if (!model.count)
		to.append(el('p', {class: 'empty'}, 'Nothing has been discovered yet.'));
	else if (words[0] === 'chip')
		showSwitch(to, painted, [['machine', '#machine'], [words[1]]], [model.number(words[1])].filter(i => i >= 0));
	else if (words.length >= 3) {
		const [row, cabinet, frame, board] = words;
		const key = words.slice(0, 4).join('.');
		showSwitch(to, painted, [['machine', '#machine'], [cabinetName(row, cabinet), `#machine/${row}/${cabinet}`],
			[board === undefined ? `${frameWord(Number(row))} ${frame}` : `board ${board}`]],
		model.devicesAt(key).filter(i => model.type[i] === SWITCH && (board !== undefined || model.board[i] === 0)));
	} else if (words.length === 2)
		showCabinet(to, painted, Number(words[0]), Number(words[1]));
	else
		showCabinets(to, painted);
	painted.paint();
	return {paint: painted.paint};
}
