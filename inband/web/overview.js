// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// All devices and links at once, by WebGL: the roots in the middle, nodes outside. What is wrong shines. Dots say
// little (24,000 tell nobody anything), so this is for a look at the whole, and a click leads elsewhere.

import {el, plural} from './dom.js';
import {model, NONE, LAYER_NODE} from './model.js';

const VERTEX = `#version 300 es
in vec2 place; in vec4 colour; in float size; uniform vec3 view; uniform float aspect; out vec4 tint;
void main() { vec2 at = (place - view.xy) * view.z; gl_Position = vec4(at.x / aspect, at.y, 0, 1); gl_PointSize = size * max(1.0, sqrt(view.z)); tint = colour; }`;
const FRAGMENT = `#version 300 es
precision mediump float; in vec4 tint; uniform bool points; out vec4 pixel;
void main() { float a = 1.0; if (points) { float d = length(gl_PointCoord - 0.5); a = smoothstep(0.5, 0.35, d); } pixel = vec4(tint.rgb * tint.a * a, tint.a * a); }`;

const COLOUR = {well: [[.28, .44, .53, .8], [.30, .65, .60, .95], [.36, .75, .68, 1], [.55, .78, .50, 1], [.85, .72, .40, 1], [.95, .82, .55, 1], [.6, .7, .75, 1]],
	faulty: [1, .30, .22, 1], silent: [.9, .5, .15, 1], missing: [.8, .2, .35, 1]};

// Rings, each device of a layer at the angle of what hangs below it.
function layout() {
	const xy = new Float32Array(model.count * 2), angle = new Float32Array(model.count).fill(NaN);
	const layers = [...Array(7)].map(() => []);
	for (let i = 0; i < model.count; i++)
		layers[model.layerOf[i]].push(i);
	const used = layers.map((list, layer) => [layer, list]).filter(([, list]) => list.length);
	used.forEach(([layer, list], n) => {
		if (layer === LAYER_NODE)
			list.sort((a, b) => model.cabinet[a] - model.cabinet[b] || model.frame[a] - model.frame[b] || Number(model.id[a] - model.id[b]));
		else {
			const mean = new Map(list.map(i => {
				let x = 0, y = 0;
				for (const [, peer] of model.portsOf(i))
					if (peer !== NONE && !Number.isNaN(angle[peer]) && model.layerOf[peer] < layer) {
						x += Math.cos(angle[peer]);
						y += Math.sin(angle[peer]);
					}
				return [i, Math.hypot(x, y) > 1e-3 ? (Math.atan2(y, x) + 2 * Math.PI) % (2 * Math.PI) : i];
			}));
			list.sort((a, b) => mean.get(a) - mean.get(b) || a - b);
		}
		const rings = layer === LAYER_NODE ? Math.max(1, Math.round(list.length / 2300)) : layer > 3 ? 3 : 2;
		const outer = 1 - n / used.length * .93, inner = outer - .55 / used.length;
		list.forEach((i, k) => {
			angle[i] = k / list.length * 2 * Math.PI;
			const radius = rings > 1 ? inner + (outer - inner) * (k % rings) / (rings - 1) : outer;
			xy[2 * i] = radius * Math.cos(angle[i]);
			xy[2 * i + 1] = radius * Math.sin(angle[i]);
		});
	});
	return xy;
}

function program(gl) {
	const made = gl.createProgram();
	for (const [type, text] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
		const shader = gl.createShader(type);
		gl.shaderSource(shader, text);
		gl.compileShader(shader);
		gl.attachShader(made, shader);
	}
	gl.linkProgram(made);
	if (!gl.getProgramParameter(made, gl.LINK_STATUS))
		throw new Error(gl.getProgramInfoLog(made));
	gl.useProgram(made);
	return made;
}

class Scene {
	constructor(gl, canvas) {
		this.gl = gl;
		this.canvas = canvas;
		this.view = [0, 0, .95];
		this.xy = layout();
		this.made = program(gl);
		gl.enable(gl.BLEND);
		gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
		this.links = [];
		for (let i = 0; i < model.count; i++)
			for (const [p, peer] of model.portsOf(i))
				if (peer !== NONE && (i < peer || model.state[i] > 3))
					this.links.push([i, p, peer]);
		this.points = this.part(model.count);
		this.lines = this.part(this.links.length * 2);
		this.paint();
	}

	// A vertex is x, y, red, green, blue, alpha, size.
	part(count) {
		return {data: new Float32Array(count * 7), count, buffer: this.gl.createBuffer()};
	}

	put(part, n, i, colour, size) {
		part.data.set([this.xy[2 * i], this.xy[2 * i + 1], ...colour, size], n * 7);
	}

	paint() {
		const gl = this.gl;
		for (let i = 0; i < model.count; i++) {
			const word = model.deviceWord(i), layer = model.layerOf[i];
			this.put(this.points, i, i, word === 'well' ? COLOUR.well[layer] : COLOUR[word], word === 'well' ? (layer === LAYER_NODE ? 2.2 : 3.4) : 9);
		}
		this.links.forEach(([i, p, peer], n) => {
			const word = model.portWord(i, p);
			const colour = word === 'lost' ? [1, .3, .25, .95] : word === 'up' ? [.30, .62, .62, model.layerOf[i] && model.layerOf[peer] ? .035 : .07] : [.9, .6, .2, .7];
			this.put(this.lines, 2 * n, i, colour, 1);
			this.put(this.lines, 2 * n + 1, peer, colour, 1);
		});
		for (const part of [this.points, this.lines]) {
			gl.bindBuffer(gl.ARRAY_BUFFER, part.buffer);
			gl.bufferData(gl.ARRAY_BUFFER, part.data, gl.DYNAMIC_DRAW);
		}
		this.draw();
	}

	drawPart(part, mode) {
		const gl = this.gl;
		gl.bindBuffer(gl.ARRAY_BUFFER, part.buffer);
		for (const [name, size, at] of [['place', 2, 0], ['colour', 4, 8], ['size', 1, 24]]) {
			const where = gl.getAttribLocation(this.made, name);
			gl.enableVertexAttribArray(where);
			gl.vertexAttribPointer(where, size, gl.FLOAT, false, 28, at);
		}
		gl.uniform1i(gl.getUniformLocation(this.made, 'points'), mode === gl.POINTS);
		gl.drawArrays(mode, 0, part.count);
	}

	draw() {
		const gl = this.gl, {canvas} = this;
		const scale = devicePixelRatio || 1, width = canvas.clientWidth * scale, height = canvas.clientHeight * scale;
		if (canvas.width !== width || canvas.height !== height)
			[canvas.width, canvas.height] = [width, height];
		gl.viewport(0, 0, width, height);
		gl.clearColor(.051, .082, .11, 1);
		gl.clear(gl.COLOR_BUFFER_BIT);
		gl.uniform3f(gl.getUniformLocation(this.made, 'view'), ...this.view);
		gl.uniform1f(gl.getUniformLocation(this.made, 'aspect'), width / height);
		this.drawPart(this.lines, gl.LINES);
		this.drawPart(this.points, gl.POINTS);
	}

	// Where the pointer is, in the picture's own measure.
	place(event) {
		const box = this.canvas.getBoundingClientRect();
		const x = ((event.clientX - box.left) / box.width * 2 - 1) * box.width / box.height, y = 1 - (event.clientY - box.top) / box.height * 2;
		return [x / this.view[2] + this.view[0], y / this.view[2] + this.view[1]];
	}

	nearest(event) {
		const [x, y] = this.place(event), reach = 12 / this.canvas.clientHeight / this.view[2];
		let best = null, least = reach * reach;
		for (let i = 0; i < model.count; i++) {
			const distance = (this.xy[2 * i] - x) ** 2 + (this.xy[2 * i + 1] - y) ** 2;
			if (distance < least)
				[best, least] = [i, distance];
		}
		return best;
	}

	zoom(event) {
		const [x, y] = this.place(event), by = Math.exp(-event.deltaY / 500), z = Math.min(Math.max(this.view[2] * by, .5), 60);
		const kept = this.view[2] / z;
		this.view = [x + (this.view[0] - x) * kept, y + (this.view[1] - y) * kept, z];
		this.draw();
	}

	move(event) {
		const scale = 2 / this.canvas.clientHeight / this.view[2];
		this.view[0] -= event.movementX * scale;
		this.view[1] += event.movementY * scale;
		this.draw();
	}
}

export function show(to) {
	const canvas = el('canvas', {class: 'overview'});
	to.append(canvas, el('p', {class: 'legend'}, el('span', {class: 'lost'}, 'wrong'), 'wheel: nearer or farther · drag: move · click: the device'));
	const gl = canvas.getContext('webgl2', {antialias: true, preserveDrawingBuffer: true});
	if (!gl) {
		to.replaceChildren(el('p', {class: 'empty'}, 'This browser has no WebGL; Machine and Layers show the same without it.'));
		return {};
	}
	const scene = new Scene(gl, canvas);
	let near = null, moved = 0;
	canvas.onwheel = event => { event.preventDefault(); scene.zoom(event); };
	canvas.onpointerdown = event => { moved = 0; canvas.setPointerCapture(event.pointerId); };
	canvas.onpointermove = event => {
		if (event.buttons) {
			moved += Math.abs(event.movementX) + Math.abs(event.movementY);
			scene.move(event);
		} else
			near = scene.nearest(event);
	};
	canvas.onclick = () => near !== null && moved < 5 && (location.hash = `#device/${encodeURIComponent(model.names[near])}`);
	canvas.tip = () => near === null ? plural(model.count, 'device') : `${model.names[near]}${model.faults[near] ? `: ${plural(model.faults[near], 'fault')}` : ''}`;
	const resize = new ResizeObserver(() => scene.draw());
	resize.observe(canvas);
	return {paint: () => scene.paint(), end: () => { resize.disconnect(); gl.getExtension('WEBGL_lose_context')?.loseContext(); }};
}
