// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Elements: el('div', {class: 'a', onclick: f}, child, 'text'), and the same for SVG.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
	for (const [key, value] of Object.entries(attributes)) {
		if (value === undefined || value === null || value === false)
			continue;
		if (key.startsWith('on'))
			element.addEventListener(key.slice(2), value);
		else
			element.setAttribute(key, value === true ? '' : value);
	}
	element.append(...children.flat().filter(child => child !== null && child !== undefined));
	return element;
}

export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
export const $ = selector => document.querySelector(selector);

// The style sheet's colours by their names, for what is drawn and not styled; they are as they are now.
export function colours() {
	const style = getComputedStyle(document.documentElement), known = new Map();
	return name => {
		if (!known.has(name))
			known.set(name, style.getPropertyValue(`--${name}`).trim());
		return known.get(name);
	};
}

// Something that a click or the Enter key opens.
export function opens(element, hash) {
	element.classList.add('opens');
	element.setAttribute('tabindex', '0');
	element.setAttribute('role', 'link');
	element.dataset.to = hash;
	return element;
}

document.addEventListener('click', event => {
	const at = event.target.closest('[data-to]');
	if (at)
		location.hash = at.dataset.to;
});
document.addEventListener('keydown', event => {
	if (event.key === 'Enter' && event.target.dataset?.to)
		location.hash = event.target.dataset.to;
});

// What the pointer is over says what it is: element.tip is a function that returns text.
export function tip(element, text) {
	element.tip = text;
	return element;
}

document.addEventListener('pointermove', event => {
	const box = $('#tip');
	let at = event.target;
	while (at && !at.tip)
		at = at.parentNode;
	box.hidden = !at;
	if (!at)
		return;
	box.textContent = at.tip();
	const x = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
	const y = event.clientY + 18 + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 10 : event.clientY + 18;
	box.style.transform = `translate(${x}px, ${y}px)`;
});

export const plural = (n, one, many = one + 's') => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;
export const clock = ms => new Date(ms).toLocaleTimeString('en-GB');
