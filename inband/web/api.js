// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// What the page asks the server: web.h says what there is.

export class Refused extends Error {
	constructor(status, text) {
		super(text);
		this.status = status;
	}
}

async function answer(response) {
	const text = await response.text();
	let body = {};
	try {
		body = JSON.parse(text.trimEnd().split('\n').pop());
	} catch {
		body = {error: text};
	}
	if (!response.ok)
		throw new Refused(response.status, body.error || response.statusText);
	return body;
}

// A command that changes nothing.
export async function get(command, members = {}) {
	const query = new URLSearchParams(members).toString();
	return answer(await fetch(`api/${command}${query ? '?' + query : ''}`));
}

// Any command; an operator's right.
export async function post(command, members = {}) {
	return answer(await fetch(`api/${command}`,
		{method: 'POST', headers: {'Content-Type': 'application/json'}, body: JSON.stringify(members)}));
}

export async function session(method = 'GET', token = undefined) {
	return answer(await fetch('session', {method, body: token === undefined ? undefined : JSON.stringify({token})}));
}
