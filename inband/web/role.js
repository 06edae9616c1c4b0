// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Who looks at the page, by the server's word.

let role = 'viewer';
export const isOperator = () => role === 'operator';
export const setRole = name => { role = name; };
