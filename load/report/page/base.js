/* SPDX-License-Identifier: Apache-2.0 */
/* Elements, numbers and the results: what all other parts of the page stand on. */
'use strict';

/* As the terminal gets them (load/report/result/text.c): what is not seen or turns text is written out. */
function escapeControls(text) {
	return text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
		(c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0'));
}

const page = JSON.parse(document.getElementById('data').textContent,
	(key, value) => typeof value === 'string' ? escapeControls(value) : value);

/* ---------------------------------------------------------------- elements */

/* el('p', {class: 'lead'}, 'text', otherElement): attributes beginning with "on" are handlers. */
function el(tag, attrs, ...children) {
	const svg = ['svg', 'path', 'text', 'rect', 'g', 'title'].includes(tag);
	const e = svg ? document.createElementNS('http://www.w3.org/2000/svg', tag)
		: document.createElement(tag);
	for (const [key, value] of Object.entries(attrs || {})) {
		if (value === null || value === undefined || value === false)
			continue;
		if (key.startsWith('on'))
			e.addEventListener(key.slice(2), value);
		else
			e.setAttribute(key, value === true ? '' : value);
	}
	e.append(...children.filter((c) => c !== null && c !== undefined));
	return e;
}

/* A section of the page with its entry in the navigation. */
function section(id, title, attrs, ...children) {
	const nav = document.getElementById('nav'), text = attrs.nav || title;
	/* Of several results the first section of a name leads to all of them. */
	if (![...nav.children].some((li) => li.textContent === text))
		nav.append(el('li', {}, el('a', {href: '#' + id}, text)));
	const head = el('div', {class: 'head'}, el('h2', {id: id + '-title'}, title));
	const s = el('section', {id, class: attrs.class || '', 'aria-labelledby': id + '-title'},
		head, ...children);
	document.getElementById('main').append(s);
	return s;
}

/* Buttons of which one is pressed; calls choose(value) for a new one. */
function toggle(label, values, chosen, choose) {
	const box = el('div', {class: 'toggle', role: 'group', 'aria-label': label});
	for (const [value, text] of values) {
		box.append(el('button', {type: 'button', 'aria-pressed': String(value === chosen),
			onclick: (event) => {
				for (const b of box.children)
					b.setAttribute('aria-pressed', String(b === event.currentTarget));
				choose(value);
			}}, text));
	}
	return box;
}

function dropdown(label, values, chosen, choose) {
	const select = el('select', {onchange: () => choose(values[select.selectedIndex][0])},
		...values.map(([value, text]) => el('option', {selected: value === chosen}, text)));
	return el('label', {}, label, select);
}

/* Say something to a screen reader. */
function announce(text) {
	document.getElementById('live').textContent = text;
}

/* ----------------------------------------------------------------- numbers */

const noValue = '\u2013';

function formatDigits(v) {
	const a = Math.abs(v);
	if (a >= 10000)
		return Math.round(v).toString().replace(/\B(?=(\d{3})+$)/g, '\u202f');
	return a >= 100 ? v.toFixed(0) : a >= 10 ? v.toFixed(1) : a >= 1 || a === 0 ? v.toFixed(2)
		: v.toPrecision(2);
}

/* [value in the unit, unit]: three steps are enough to keep four digits. */
function scaleToUnit(v, units, step) {
	let i = 0;
	while (i < units.length - 1 && Math.abs(v) >= step) {
		v /= step;
		i++;
	}
	return [v, units[i]];
}

const format = {
	rate: (v) => {
		const [n, unit] = scaleToUnit(v, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'], 1000);
		return formatDigits(n) + '\u00a0' + unit;
	},
	size: (v) => {
		const [n, unit] = scaleToUnit(v, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'], 1024);
		return (Number.isInteger(n) ? String(n) : formatDigits(n)) + '\u00a0' + unit;
	},
	time: (v) => {
		if (v === 0)
			return '0\u00a0s';
		const [n, unit] = v >= 1 ? [v, 's'] : scaleToUnit(v * 1e9, ['ns', '\u00b5s', 'ms'], 1000);
		return formatDigits(n) + '\u00a0' + unit;
	},
	percent: (v) => formatDigits(v * 100) + '\u00a0%',
	count: (v) => Number.isInteger(v) && Math.abs(v) < 10000 ? String(v) : formatDigits(v),
	cpu: (v) => formatDigits(v) + '\u00a0s/GiB',
	text: (v) => Array.isArray(v) ? v.join(', ') : String(v),
};

function formatValue(kind, v) {
	return v === null || v === undefined || (typeof v === 'number' && !isFinite(v)) ? noValue
		: format[kind](v);
}

/* The same for the numbers at an axis, where zeros behind the point say nothing. */
function formatTick(kind, v) {
	return formatValue(kind, v).replace(/(\.\d*?)0+(?=\D|$)/, '$1').replace(/\.(?=\D|$)/, '');
}

/* Names of settings and members, for people: queue_depth -> queue depth. */
function spacedWords(name) {
	return escapeControls(name).replace(/_/g, ' ');
}

function setting(name, v) {
	if (Array.isArray(v))
		return v.map((x) => setting(name, x)).join(', ');
	if (v === null || v === undefined)
		return 'default';
	if (typeof v === 'boolean')
		return v ? 'yes' : 'no';
	if (typeof v === 'number' && /(^|_)(sizes?|bytes)$/.test(name))
		return format.size(v);
	return String(v);
}

/* The value at "a.b.p99.9" of an object; a percentile has a dot in its name. */
function valueAt(object, path) {
	const [, front, percentile] = /^(.*?)(?:\.(p[\d.]+))?$/.exec(path);
	let v = front.split('.').reduce((o, key) => o === null || o === undefined ? o : o[key], object);
	if (percentile && v)
		v = v.percentiles ? v.percentiles[percentile] : undefined;
	return v === undefined ? null : v;
}

/* ----------------------------------------------------------------- results */

/* One entry per series of all results, with how it is called where results are mixed. */
const results = page.results.map((r, i) => ({...r.result, label: r.name, index: i}));
const several = results.length > 1;
const series = results.flatMap((r) => r.series.map((s, position) => ({
	...s,
	position,
	result: r,
	label: (several ? r.label + ': ' : '') + s.name,
})));
series.forEach((s, i) => {
	s.index = i;
});

function groupBy(list, key) {
	const groups = new Map();
	for (const item of list) {
		const k = key(item);
		if (!groups.has(k))
			groups.set(k, []);
		groups.get(k).push(item);
	}
	return groups;
}

function bestOf(list, value) {
	return list.reduce((a, b) => a && value(a) >= value(b) ? a : b, null);
}

/* Results whose series are points of a grid are shown as such. */
const isGrid = (r) => Boolean(r.grid || r.tune);
const plainSeries = series.filter((s) => !isGrid(s.result) && !s.result.kv);
