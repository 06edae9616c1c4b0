// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The bar, and which view is shown: the address's part behind # is VIEW/WHAT.

import {$, el, plural} from './dom.js';
import {get, session} from './api.js';
import {model} from './model.js';
import {isOperator, setRole} from './role.js';
import * as machine from './machine.js';

// A view: show(element, words) draws; it may return paint() for ports that change, alarm(), event(), and end().
const views = {
	machine: {title: 'Machine', load: async () => machine},
	layers: {title: 'Layers', load: () => import('./layers.js')},
	overview: {title: 'Overview', load: () => import('./overview.js')},
	faults: {title: 'Faults', load: () => import('./faults.js')},
	traffic: {title: 'Traffic', load: () => import('./traffic.js'), if: () => model.can.has('counters')},
	log: {title: 'Log', load: () => import('./log.js')},
	device: {load: () => import('./device.js')},
};

let shown = {};

async function route() {
	const hash = location.hash.slice(1);
	const [name, ...words] = (hash || 'machine').split('/').map(decodeURIComponent);
	const view = views[name] ?? views.machine;
	$('#views').replaceChildren(...Object.entries(views).filter(([, v]) => v.title && (v.if?.() ?? true))
		.map(([key, v]) => el('a', {href: `#${key}`, 'data-view': key}, v.title)));
	for (const link of $('#views').children)
		link.classList.toggle('here', link.dataset.view === name);
	const module = await view.load();
	if (location.hash.slice(1) !== hash)
		return;
	shown.end?.();
	const main = $('#main');
	main.replaceChildren();
	main.className = name;
	$('#tip').hidden = true;
	shown = module.show(main, words) ?? {};
	/* For who measures: when it is on the screen. */
	if (model.count)
		requestAnimationFrame(() => setTimeout(() => performance.mark('picture')));
}

function counts() {
	const severities = {critical: 0, major: 0, minor: 0, warning: 0};
	for (const alarm of model.alarms.values())
		if (alarm.active)
			severities[alarm.severity]++;
	$('#counts').replaceChildren(...Object.entries(severities).filter(([, n]) => n)
		.map(([name, n]) => el('a', {href: '#faults', class: `severity ${name}`, title: name}, `${n} ${name}`)));
}

function about() {
	const {network, plan, switches, nodes, links, discovering} = model.head;
	$('#what').textContent = discovering && !switches ? 'discovery is under way …'
		: `${plan || network}: ${plural(switches, 'switch chip')}, ${plural(nodes, 'node')}, ${plural(links, 'link')}`;
	document.title = `${plan || network} · inbandd`;
}

async function readAlarms() {
	const {alarms} = await get('alarms', {all: true});
	model.alarms = new Map(alarms.map(alarm => [alarm.id, alarm]));
	model.tell('alarm', {});
}

let waiting = false;
function paintSoon() {
	if (waiting)
		return;
	waiting = true;
	queueMicrotask(() => {
		waiting = false;
		shown.paint?.();
	});
}

function takeRole(answer) {
	setRole(answer.role);
	$('#who').textContent = answer.name ? `${answer.role}${answer.name !== answer.role ? ' ' + answer.name : ''}` : answer.role;
	document.body.classList.toggle('operator', isOperator());
	route();
}

function login() {
	const dialog = $('#login');
	$('#refused').textContent = '';
	dialog.showModal();
	dialog.onclose = async () => {
		if (dialog.returnValue !== 'ok')
			return;
		try {
			takeRole(await session('POST', $('#token').value));
			$('#token').value = '';
			if (!model.loaded)
				location.reload();
		} catch (refused) {
			$('#refused').textContent = refused.message;
			dialog.showModal();
		}
	};
}

async function begin() {
	$('#who').onclick = async () => isOperator() ? takeRole(await session('DELETE')) : login();
	model.addEventListener('model', () => { about(); route(); });
	model.addEventListener('ports', paintSoon);
	model.addEventListener('alarm', event => { counts(); shown.alarm?.(event.detail); });
	model.addEventListener('event', event => shown.event?.(event.detail));
	model.addEventListener('live', () => { $('#live').className = model.live ? 'on' : 'off'; });
	addEventListener('hashchange', route);
	matchMedia('(prefers-color-scheme: light)').addEventListener('change', route);
	try {
		await model.load();
	} catch {
		login();
		return;
	}
	model.watch();
	takeRole(await session());
	await readAlarms();
}

begin();
