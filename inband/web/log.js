// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What has happened since the server kept it, the latest first.

import {el, clock} from './dom.js';
import {model} from './model.js';
import {endLink} from './device.js';

function text(event) {
	switch (event.event) {
	case 'link': return [endLink(event.at), event.to ? [' — ', endLink(event.to)] : '', ` is ${event.state}`].flat();
	case 'discovered': return [`found ${event.switches} switches, ${event.nodes} nodes, ${event.links} links`];
	case 'raised':
	case 'cleared':
	case 'explained':
	case 'acknowledged':
		return [el('span', {class: `severity ${event.severity}`}, event.severity), ` alarm ${event.id} ${event.event}: ${event.kind} `, endLink(event.at), `, ${event.cause}`];
	case 'progress': return [`${event.work}: ${event.done} of ${event.of}`];
	case 'ended': return [`${event.work} has ended${event.failed ? `, ${event.failed} failed` : ''}`];
	default: return [Object.entries(event).filter(([key]) => !['event', 'number', 'ms', 'ok'].includes(key)).map(([key, value]) => `${key} ${value}`).join(', ')];
	}
}

const line = event => el('li', {class: event.event}, el('time', {}, event.ms ? clock(event.ms) : ''), el('b', {}, event.event), el('span', {}, ...text(event)));

export function show(to) {
	const filter = el('input', {placeholder: 'only lines with …', 'aria-label': 'filter', oninput: () => draw()});
	const list = el('ol', {class: 'log'});
	const draw = () => {
		const wanted = filter.value.toLowerCase();
		list.replaceChildren(...model.log.toReversed().map(line).filter(item => item.textContent.toLowerCase().includes(wanted)).slice(0, 500));
		if (!list.children.length)
			list.append(el('li', {class: 'empty'}, 'Nothing has happened yet.'));
	};
	to.append(el('p', {class: 'row'}, filter), list);
	draw();
	return {event: draw};
}
