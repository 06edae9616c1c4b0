// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What is known, kept as the server's columns (web_model.c) and changed by its events. Whoever shows some of it
// listens to 'model' (all is new), 'ports' (states of ports have changed), 'alarm' and 'event'.

export const NODE = 0, SWITCH = 1;
export const NONE = 0xffffffff;
export const [LAYER_NODE, LAYER_EDGE, LAYER_SPINE, LAYER_LEAF, LAYER_ROOT_EDGE, LAYER_ROOT_SPINE, LAYER_OTHER] =
	[0, 1, 2, 3, 4, 5, 6];
export const [COMPUTE, LEAF, ROOT, NOWHERE] = [0, 1, 2, 3];
export const [TOLD, ASKED, KNOWN, SILENT, MISSING] = [0, 1, 2, 3, 4];
export const ROWS = ['Computer cabinets', 'Leaf cabinets', 'Root cabinets'];
const HISTORY = 300; // events of before
const LOST = 4, TESTING = 8, OPTICAL = 16;

class Model extends EventTarget {
	loaded = false;
	alarms = new Map();
	log = [];
	findings = null;
	live = false;

	async load() {
		const response = await fetch('model');
		if (!response.ok)
			throw new Error((await response.json()).error);
		this.take(await response.arrayBuffer());
	}

	take(buffer) {
		const length = new DataView(buffer).getUint32(0, true);
		const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
		for (const column of head.columns) {
			const at = 4 + length + column.at;
			this[column.name] = column.type === 'text'
				? new TextDecoder().decode(new Uint8Array(buffer, at, column.length)).split('\n')
				: new globalThis[column.type + 'Array'](buffer, at, column.length);
		}
		this.head = head;
		this.count = head.devices;
		this.can = new Set(head.can);
		this.last = head.event;
		this.portsFromOne = head.network === 'InfiniBand';
		this.index();
		this.loaded = true;
		/* What came after the server looked, and before this is here. */
		for (const event of this.log)
			if (event.event === 'link' && event.number > this.last) {
				this.last = event.number;
				this.setLink(event);
			}
		this.tell('model');
	}

	index() {
		this.first = new Uint32Array(this.count + 1);
		for (let i = 0; i < this.count; i++)
			this.first[i + 1] = this.first[i] + this.ports[i];
		this.numbers = null;
		this.layerOf = this.layer;
		this.rank();
		this.weigh();
		this.group();
	}

	// Where no plan names layers: a switch is as high as its next node is far.
	rank() {
		if (!this.layer.some((layer, i) => layer === LAYER_OTHER && this.type[i] === SWITCH))
			return;
		const layer = Uint8Array.from(this.layer), queue = [];
		const rank = new Uint8Array(this.count).fill(255);
		for (let i = 0; i < this.count; i++)
			if (this.type[i] === NODE) {
				layer[i] = LAYER_NODE;
				rank[i] = 0;
				queue.push(i);
			}
		for (let at = 0; at < queue.length; at++)
			for (const [, peer] of this.portsOf(queue[at]))
				if (peer !== NONE && rank[peer] === 255) {
					rank[peer] = rank[queue[at]] + 1;
					queue.push(peer);
				}
		for (let i = 0; i < this.count; i++)
			if (layer[i] === LAYER_OTHER)
				layer[i] = Math.min(rank[i] === 255 ? 6 : rank[i], 6);
		this.layerOf = layer;
	}

	// Faults of each device: its lost links, and one if it is not there itself.
	weigh() {
		this.faults = new Uint16Array(this.count);
		for (let i = 0; i < this.count; i++) {
			let n = this.state[i] >= SILENT ? 1 : 0;
			for (let p = this.first[i]; p < this.first[i + 1]; p++)
				n += this.portState[p] >> 2 & 1;
			this.faults[i] = n;
		}
	}

	// Devices by where they stand: place(key) is a cabinet, frame or board of them.
	group() {
		this.places = new Map();
		let lists = [], last = -1;
		for (let i = 0; i < this.count; i++) {
			if (this.row[i] === NOWHERE)
				continue;
			/* Neighbours in the list stand together as a rule. */
			const where = ((this.row[i] * 65536 + this.cabinet[i]) * 256 + this.frame[i]) * 256 + this.board[i];
			if (where === last) {
				for (const list of lists)
					list.push(i);
				continue;
			}
			last = where;
			lists = [];
			const cabinet = `${this.row[i]}.${this.cabinet[i]}`;
			const frame = `${cabinet}.${this.frame[i]}`;
			for (const key of [cabinet, frame, `${frame}.${this.board[i]}`]) {
				const list = this.places.get(key) ?? [];
				if (!list.length)
					this.places.set(key, list);
				list.push(i);
				lists.push(list);
			}
		}
	}

	devicesAt(key) {
		return this.places.get(key) ?? [];
	}

	faultsAt(key) {
		return this.devicesAt(key).reduce((sum, i) => sum + this.faults[i], 0);
	}

	*portsOf(device) {
		for (let p = this.first[device]; p < this.first[device + 1]; p++)
			yield [p - this.first[device], this.peer[p], this.peerPort[p], this.portState[p]];
	}

	number(name) {
		if (!this.numbers)
			this.numbers = new Map(this.names.slice(0, this.count).map((n, i) => [n, i]));
		return this.numbers.get(name) ?? -1;
	}

	// "S.leaf.3.7:4": [device, port]
	end(text) {
		const colon = text.lastIndexOf(':');
		if (colon < 0)
			return [Math.max(this.number(text), this.number(text + '.0')), undefined];
		return [this.number(text.slice(0, colon)), Number(text.slice(colon + 1))];
	}

	// One word for the colour of a port: up, lost, light, testing, none.
	portWord(device, port) {
		const state = this.portState[this.first[device] + port];
		return state & LOST ? 'lost' : state & TESTING ? 'testing' : this.state[device] === MISSING ? 'none'
			: ['none', 'light', 'up'][state & 3];
	}

	deviceWord(device) {
		return this.state[device] === MISSING ? 'missing' : this.state[device] === SILENT ? 'silent'
			: this.faults[device] ? 'faulty' : 'well';
	}

	optical(device, port) {
		return !!(this.portState[this.first[device] + port] & OPTICAL);
	}

	setPort(text, word) {
		const [device, port] = this.end(text);
		if (device < 0 || !(port < this.ports[device]))
			return;
		const at = this.first[device] + port, was = this.portState[at];
		const kept = this.portState[at] & ~(LOST | TESTING | 3);
		this.portState[at] = kept | (word === 'lost' ? LOST : word === 'testing' ? TESTING | 2 : 2);
		this.faults[device] += (this.portState[at] >> 2 & 1) - (was >> 2 & 1);
	}

	setLink(event) {
		for (const end of [event.at, event.to])
			if (end)
				this.setPort(end, event.state);
	}

	tell(name, detail = {}) {
		this.dispatchEvent(new CustomEvent(name, {detail}));
	}

	// The model has those up to its own event in it: they are for the log alone.
	hear(event) {
		const old = event.number && event.number <= this.last;
		if (event.number && !old)
			this.last = event.number;
		switch (old ? '' : event.event) {
		case 'missed':
		case 'discovered':
		case 'plan':
			this.load();
			break;
		case 'link':
			this.setLink(event);
			this.tell('ports');
			break;
		case 'raised':
		case 'cleared':
		case 'explained':
		case 'acknowledged':
			this.alarms.set(event.id, event);
			this.tell('alarm', event);
			break;
		}
		this.log.push(event);
		if (this.log.length > 2000)
			this.log.splice(0, 500);
		this.tell('event', event);
	}

	watch() {
		const events = new EventSource(`events?after=${Math.max(this.last - HISTORY, 0)}`);
		events.onmessage = message => this.hear(JSON.parse(message.data));
		let broken = false;
		events.onopen = () => {
			/* It may be another server's process, which counts its events anew. */
			if (broken)
				this.load();
			broken = false;
			this.live = true;
			this.tell('live');
		};
		events.onerror = () => {
			broken = true;
			this.live = false;
			this.tell('live');
		};
	}
}

export const model = new Model();
