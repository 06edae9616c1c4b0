// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Alarms as they happen, and what differs from the plan.

import {el, clock, plural} from './dom.js';
import {get, post} from './api.js';
import {model} from './model.js';
import {endLink, table} from './device.js';
import {isOperator} from './role.js';

const order = ['critical', 'major', 'minor', 'warning'];

async function acknowledge(alarm, button) {
	try {
		await post('ack', {id: alarm.id});
	} catch (refused) {
		button.textContent = refused.message;
	}
}

function row(alarm) {
	const ends = [endLink(alarm.at), alarm.to ? [' — ', endLink(alarm.to)] : []].flat();
	return el('tr', {class: alarm.active ? '' : 'over', 'data-alarm': alarm.id}, el('td', {}, el('span', {class: `severity ${alarm.severity}`}, alarm.severity)),
		el('td', {}, alarm.kind), el('td', {}, ...ends), el('td', {}, alarm.cause), el('td', {class: 'dim'}, alarm.place ?? '', alarm.place2 ? el('br') : '', alarm.place2 ?? ''),
		el('td', {class: 'n'}, clock(alarm.first_ms)), el('td', {class: 'n'}, alarm.count > 1 ? `${alarm.count} ×` : ''),
		el('td', {}, !alarm.active ? 'over' : alarm.acknowledged ? 'acknowledged'
			: isOperator() ? el('button', {onclick: event => acknowledge(alarm, event.target)}, 'Acknowledge') : 'new'));
}

async function compare(box) {
	box.replaceChildren(el('p', {class: 'dim'}, 'comparing …'));
	try {
		const {count, findings} = await get('check');
		box.replaceChildren(count ? table(['what', 'at', 'where to go'], findings.map(f => [f.kind, f.finding.slice(f.kind.length + 1), f.place]), {class: 'findings'})
			: el('p', {class: 'good'}, 'Everything is as planned.'));
	} catch (refused) {
		box.replaceChildren(el('p', {class: 'dim'}, refused.message));
	}
}

export function show(to) {
	let all = false;
	const heading = el('h2', {}), box = el('div', {}), findings = el('div', {id: 'findings'});
	const paint = () => {
		const list = [...model.alarms.values()].filter(alarm => all || alarm.active)
			.sort((a, b) => b.active - a.active || order.indexOf(a.severity) - order.indexOf(b.severity) || b.id - a.id);
		heading.textContent = `Alarms · ${list.filter(alarm => alarm.active).length}`;
		box.replaceChildren(list.length ? table(['', 'of', 'at', 'probable cause', 'where to go', 'since', '', ''], list.slice(0, 500).map(row), {class: 'alarms'})
			: el('p', {class: 'empty good'}, 'There are no alarms.'),
		list.length > 500 ? el('p', {class: 'dim'}, `and ${plural(list.length - 500, 'more alarm')}`) : '');
	};
	to.append(heading, el('label', {class: 'row'}, el('input', {type: 'checkbox', onchange: event => { all = event.target.checked; paint(); }}), ' with those that are over'),
		box, el('h2', {}, 'Against the plan'), findings);
	paint();
	compare(findings);
	return {alarm: paint, event: event => event.event === 'ended' && compare(findings)};
}
