// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The network by layers, nodes at the bottom: a cell for each switch chip, and how many links between two layers
// are up. A chip that is pointed at shows its neighbours; a trace shows the way of packets.

import {el, $, colours, plural} from './dom.js';
import {get} from './api.js';
import {model, SWITCH, NODE, NONE, LAYER_NODE} from './model.js';

const NAMES = ['nodes', 'edge', 'spine', 'leaf', 'root edge', 'root spine', 'others'];
const RANKS = ['nodes', 'first layer', 'second layer', 'third layer', 'fourth layer', 'fifth layer', 'farther'];
const WIDTH = 1320, LEFT = 130, GAP = 46, AIR = 110, FEW = 3000;

class Picture {
	constructor(canvas) {
		this.canvas = canvas;
		this.near = null;
		this.path = [];
		this.colour = colours();
		this.place();
	}

	// Rows of cells; nodes, where they are many, as frames of them or by their switch.
	place() {
		const layers = [...Array(7)].map(() => []);
		for (let i = 0; i < model.count; i++)
			layers[model.layerOf[i]].push(i);
		this.rows = [];
		this.all = model.head.links <= FEW;
		this.gap = this.all ? AIR : GAP;
		this.at = new Map();
		let y = 30;
		for (let layer = 6; layer >= 0; layer--) {
			const list = layers[layer];
			if (!list.length)
				continue;
			const cells = layer === LAYER_NODE ? this.bundles(list) : list.map(i => [i]);
			const size = cells.length > 400 ? 7 : cells.length > 120 ? 9 : cells.length > 48 ? 16 : 24;
			const columns = Math.floor((WIDTH - LEFT - 10) / (size + 1));
			const row = {layer, y, size, columns, cells, height: Math.ceil(cells.length / columns) * (size + 1), count: list.length};
			/* Few are spread, and in the middle. */
			const step = this.all && cells.length <= columns ? Math.min((WIDTH - LEFT) / cells.length, 110) : size + 1;
			row.step = step;
			row.left = this.all && cells.length <= columns ? LEFT + (WIDTH - LEFT - step * cells.length) / 2 : LEFT;
			cells.forEach((cell, n) => {
				const where = {x: row.left + n % columns * step + (step - size - 1) / 2, y: y + Math.floor(n / columns) * (size + 1), size};
				cell.forEach(i => this.at.set(i, where));
			});
			this.rows.push(row);
			y += row.height + this.gap;
		}
		this.height = y - this.gap + 30;
		const scale = devicePixelRatio || 1;
		this.canvas.width = WIDTH * scale;
		this.canvas.height = this.height * scale;
		this.canvas.style.aspectRatio = `${WIDTH} / ${this.height}`;
		this.context = this.canvas.getContext('2d');
		this.context.scale(scale, scale);
	}

	bundles(nodes) {
		if (nodes.length <= 4000)
			return nodes.map(i => [i]);
		const map = new Map();
		for (const i of nodes) {
			const key = `${model.row[i]}.${model.cabinet[i]}.${model.frame[i]}`;
			map.set(key, [...map.get(key) ?? [], i]);
		}
		return [...map.values()];
	}

	between(upper, lower) {
		let up = 0, all = 0;
		for (const cell of upper.cells)
			for (const i of cell)
				for (const [p, peer] of model.portsOf(i))
					if (peer !== NONE && model.layerOf[peer] === lower.layer) {
						all++;
						up += model.portWord(i, p) === 'up';
					}
		return [up, all];
	}

	cellWord(cell) {
		return cell.map(i => model.deviceWord(i)).find(word => word !== 'well') ?? 'well';
	}

	cellColour(row, cell) {
		const word = this.cellWord(cell);
		return this.colour({well: row.layer === LAYER_NODE ? 'node' : 'chip', faulty: 'hot'}[word] ?? word);
	}

	draw() {
		const c = this.context, names = model.head.plan && !model.layer.every(layer => layer === 0 || layer === 6) ? NAMES : RANKS;
		c.clearRect(0, 0, WIDTH, this.height);
		c.font = '13px system-ui, DejaVu Sans, sans-serif';
		this.rows.forEach((row, r) => {
			c.fillStyle = this.colour('text');
			c.fillText(names[row.layer], 0, row.y + 12);
			c.fillStyle = this.colour('dim');
			c.fillText(row.count.toLocaleString('en'), 0, row.y + 29);
			for (const cell of row.cells) {
				const {x, y, size} = this.at.get(cell[0]);
				c.fillStyle = this.cellColour(row, cell);
				c.fillRect(x, y, size, size);
			}
			const below = this.rows[r + 1];
			if (below) {
				const [up, all] = this.between(row, below);
				if (this.all)
					this.note(row.y + row.height + this.gap / 2, up, all);
				else
					this.bar(row.y + row.height + GAP / 2 - 3, up, all);
			}
		});
		if (this.all)
			this.drawAll();
		if (this.near !== null)
			for (const [p, peer] of model.portsOf(this.near))
				if (peer !== NONE)
					this.line(this.near, peer, {up: this.colour('accent'), lost: this.colour('lost'), testing: this.colour('testing')}[model.portWord(this.near, p)] ?? this.colour('dim'), 1.2);
		for (let n = 1; n < this.path.length; n++)
			this.line(this.path[n - 1], this.path[n], this.colour('way'), 2.5);
		for (const i of [this.near, ...this.path].filter(i => i !== null)) {
			const {x, y, size} = this.at.get(i);
			c.strokeStyle = this.colour('text');
			c.lineWidth = 1.5;
			c.strokeRect(x - 1, y - 1, size + 2, size + 2);
		}
	}

	drawAll() {
		for (const row of this.rows)
			for (const cell of row.cells)
				for (const i of cell)
					for (const [p, peer] of model.portsOf(i))
						if (peer !== NONE && i < peer)
							this.line(i, peer, {up: `${this.colour('up')}40`, lost: this.colour('lost')}[model.portWord(i, p)] ?? this.colour('light'), model.portWord(i, p) === 'lost' ? 2 : 1);
	}

	note(y, up, all) {
		this.context.fillStyle = up === all ? this.colour('dim') : this.colour('light');
		this.context.fillText(`${all} links`, 0, y - 4);
		this.context.fillText(up === all ? 'all up' : `${all - up} not up`, 0, y + 14);
	}

	// How many of the links between two layers are up.
	bar(y, up, all) {
		const c = this.context, width = 300;
		if (!all)
			return;
		c.fillStyle = this.colour('line');
		c.fillRect(LEFT, y, width, 6);
		c.fillStyle = up === all ? this.colour('up') : this.colour('light');
		c.fillRect(LEFT, y, Math.floor(width * up / all), 6);
		c.fillStyle = up === all ? this.colour('dim') : this.colour('light');
		c.fillText(up === all ? `${all.toLocaleString('en')} links, all up` : `${all.toLocaleString('en')} links, ${all - up} not up`, LEFT + width + 12, y + 8);
	}

	line(a, b, colour, width) {
		const c = this.context, from = this.at.get(a), to = this.at.get(b);
		if (!from || !to)
			return;
		const [ax, ay, bx, by] = [from.x + from.size / 2, from.y + from.size / 2, to.x + to.size / 2, to.y + to.size / 2];
		c.strokeStyle = colour;
		c.lineWidth = width;
		c.beginPath();
		c.moveTo(ax, ay);
		c.bezierCurveTo(ax, (ay + by) / 2, bx, (ay + by) / 2, bx, by);
		c.stroke();
	}

	find(event) {
		const box = this.canvas.getBoundingClientRect(), scale = WIDTH / box.width;
		const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
		for (const row of this.rows) {
			const column = Math.floor((x - row.left) / row.step), line = Math.floor((y - row.y) / (row.size + 1));
			if (y >= row.y && y < row.y + row.height && column >= 0 && column < row.columns)
				return row.cells[line * row.columns + column]?.[0] ?? null;
		}
		return null;
	}
}

function ways(path) {
	return el('ol', {class: 'way'}, path.map(hop => el('li', {}, el('a', {href: `#device/${encodeURIComponent(hop.at)}/${hop.out ?? ''}`}, hop.at),
		hop.in !== undefined ? ` in ${hop.in}` : '', hop.out !== undefined ? ` out ${hop.out}` : '',
		hop.link ? el('small', {}, ` ${hop.link}${hop.lanes ? `, ${hop.lanes} lanes` : ''}${hop.ways > 1 ? `, one of ${hop.ways} ways` : ''}${hop.errors ? `, ${hop.errors} errors` : ''}`) : '')));
}

function someNode(n) {
	const nodes = [];
	for (let i = 0; i < model.count; i++)
		if (model.type[i] === NODE)
			nodes.push(i);
	return model.names[nodes.at(n)] ?? '';
}

function traceForm(picture, out) {
	const from = el('input', {placeholder: `node, ${someNode(0)}`, size: 16, 'aria-label': 'from', name: 'from'});
	const to = el('input', {placeholder: `node, ${someNode(-1)}`, size: 16, 'aria-label': 'to', name: 'to'});
	return el('form', {class: 'row trace', onsubmit: async event => {
		event.preventDefault();
		picture.path = [];
		try {
			const answer = await get('trace', {from: from.value.trim(), to: to.value.trim()});
			picture.path = answer.path.map(hop => model.number(hop.at)).filter(i => i >= 0);
			out.replaceChildren(el('p', {class: answer.arrived ? 'good' : 'bad'}, answer.end), ways(answer.path));
		} catch (refused) {
			out.replaceChildren(el('p', {class: 'bad'}, refused.message));
		}
		picture.draw();
	}}, 'Way of packets from ', from, ' to ', to, ' ', el('button', {}, 'Trace'));
}

export function show(to) {
	const canvas = el('canvas', {class: 'layers'}), out = el('div', {class: 'traced'});
	const picture = new Picture(canvas), draw = () => picture.draw();
	canvas.onpointermove = event => {
		const near = picture.find(event);
		if (near !== picture.near) {
			picture.near = near;
			canvas.classList.toggle('opens', near !== null);
			draw();
		}
	};
	canvas.onclick = () => picture.near !== null && (location.hash = `#device/${encodeURIComponent(model.names[picture.near])}`);
	canvas.tip = () => picture.near === null ? 'point at a switch' : `${model.names[picture.near]}: ${plural([...model.portsOf(picture.near)].filter(p => p[1] !== NONE).length, 'link')}, ${plural(model.faults[picture.near], 'fault')}`;
	if (model.can.has('route'))
		to.append(traceForm(picture, out), out);
	to.append(canvas);
	draw();
	return {paint: draw};
}
