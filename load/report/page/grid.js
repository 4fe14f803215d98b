/* SPDX-License-Identifier: Apache-2.0 */
/* Sweeps as a heat map, the search of tune, flows between tiers. */

/* --------------------------------------------------------------- heat map */

const heatValues = {
	bandwidth: {text: 'bandwidth', kind: 'rate', of: (s) => s.bytes_per_sec, more: true},
	median: {text: 'median latency', kind: 'time', of: (s) => valueAt(s, 'latency.median'), more: false},
	p99: {text: 'p99 latency', kind: 'time', of: (s) => valueAt(s, 'latency.p99'), more: false},
	cpu: {text: 'CPU per GiB', kind: 'cpu', of: (s) => s.cpu.sec_per_gib, more: false},
};

/* From pale to strong in one hue, readable with dark text, in equal steps for the eye. */
function heatColour(x) {
	const from = [247, 236, 200], middle = [126, 200, 160], to = [58, 143, 190];
	const [a, b, t] = x < 0.5 ? [from, middle, 2 * x] : [middle, to, 2 * x - 1];
	return 'rgb(' + a.map((v, i) => Math.round(v + (b[i] - v) * t)).join(' ') + ')';
}

/* The axes that have more than one value. */
function varyingAxes(r) {
	const names = r.grid ? r.grid.axes.map((a) => a.name) : Object.keys((r.series[0] || {settings: {}}).settings).filter((name) => name in r.settings);
	return names.map((name) => ({
		name,
		values: [...new Map(r.series.map((s) => [JSON.stringify(s.settings[name]), s.settings[name]])).values()]
			.sort((a, b) => typeof a === 'number' && typeof b === 'number' ? a - b : 0),
	})).filter((a) => a.values.length > 1);
}

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/* The cell of a row and a column: the best series among those that the filters leave. */
function cellOf(list, what, fits) {
	const value = heatValues[what];
	return bestOf(list.filter((s) => fits(s) && value.of(s) !== null), (s) => value.more ? value.of(s) : -value.of(s));
}

function heatTable(r, state, axes) {
	const value = heatValues[state.what];
	const list = r.series.filter((s) => s.kind === state.kind &&
		Object.entries(state.only).every(([name, v]) => v === undefined || same(s.settings[name], v)));
	const none = {name: null, values: [null]};
	const rowAxis = axes.find((a) => a.name === state.row) || none;
	const columnAxis = axes.find((a) => a.name === state.column) || none;
	const cells = rowAxis.values.map((rv) => columnAxis.values.map((cv) => cellOf(list, state.what, (s) =>
		(!rowAxis.name || same(s.settings[rowAxis.name], rv)) && (!columnAxis.name || same(s.settings[columnAxis.name], cv)))));
	const values = cells.flat().filter(Boolean).map(value.of);
	const low = Math.min(...values), high = Math.max(...values);
	const top = value.more ? high : low;
	const td = (s) => {
		if (!s)
			return el('td', {class: 'none'}, noValue);
		const v = value.of(s);
		const x = high > low ? (v - low) / (high - low) : 1;
		return el('td', {style: 'background: ' + heatColour(value.more ? x : 1 - x), class: v === top ? 'best' : '',
			title: s.name + ': ' + formatValue(value.kind, v), 'data-series': s.name, 'data-value': v},
		formatValue(value.kind, v), v === top ? el('span', {class: 'hidden'}, ' (best)') : null);
	};
	return el('div', {},
		el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Heat map of ' + value.text},
			el('table', {class: 'heat'},
				el('caption', {class: 'hidden'}, `${value.text}, ${spacedWords(state.row || '')} by ${spacedWords(state.column || '')}`),
				el('thead', {}, el('tr', {}, el('th', {}, spacedWords(rowAxis.name || '') + ' \u2193  ' + spacedWords(columnAxis.name || '') + ' \u2192'),
					...columnAxis.values.map((v) => el('th', {scope: 'col'}, columnAxis.name ? setting(columnAxis.name, v) : '')))),
				el('tbody', {}, ...rowAxis.values.map((v, i) => el('tr', {},
					el('th', {scope: 'row'}, rowAxis.name ? setting(rowAxis.name, v) : ''), ...cells[i].map(td)))))),
		values.length ? el('div', {class: 'scale'}, formatValue(value.kind, value.more ? low : high),
			el('i', {style: `background: linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(heatColour).join(', ')})`}),
			formatValue(value.kind, top)) : el('p', {class: 'lead'}, 'Nothing was measured for this choice.'));
}

function addHeat(r) {
	const axes = varyingAxes(r);
	const kinds = [...new Set(r.series.map((s) => s.kind))];
	if (!axes.length || !kinds.length)
		return;
	const byValues = [...axes].sort((a, b) => b.values.length - a.values.length);
	const state = {what: 'bandwidth', kind: kinds[0], row: byValues[0].name, column: (byValues[1] || {}).name, only: {}};
	const place = el('div', {});
	const others = el('div', {class: 'controls'});
	const id = 'heat' + (several ? r.index + 1 : '');
	const s = section(id, (several ? r.label + ': ' : '') + 'Heat map', {class: 'full', nav: 'Heat map'});
	const draw = () => {
		place.replaceChildren(heatTable(r, state, axes));
		others.replaceChildren(...axes.filter((a) => a.name !== state.row && a.name !== state.column).map((a) =>
			dropdown(spacedWords(a.name), [[undefined, 'the best'], ...a.values.map((v) => [v, setting(a.name, v)])], state.only[a.name], (v) => {
				state.only[a.name] = v;
				place.replaceChildren(heatTable(r, state, axes));
			})));
	};
	const choose = (key) => (v) => {
		const other = {row: 'column', column: 'row'}[key];
		if (other && state[other] === v)
			state[other] = state[key];
		state[key] = v;
		state.only = {};
		fill();
	};
	const controls = el('div', {class: 'controls'});
	const fill = () => {
		const names = axes.map((a) => [a.name, spacedWords(a.name)]);
		controls.replaceChildren(
			kinds.length > 1 ? toggle('Direction', kinds.map((k) => [k, k]), state.kind, choose('kind')) : '',
			dropdown('value', Object.entries(heatValues).map(([k, v]) => [k, v.text]), state.what, choose('what')),
			dropdown('rows', names, state.row, choose('row')),
			axes.length > 1 ? dropdown('columns', names, state.column, choose('column')) : '');
		draw();
	};
	fill();
	s.append(controls, others, place);
	if (axes.length > 2)
		s.append(el('p', {class: 'lead'}, 'A cell shows the best of the settings that are neither row nor column, unless one is chosen.'));
}

/* The fastest points of a sweep, all settings named. */
function addTop(r) {
	const axes = varyingAxes(r);
	if (!r.grid || !axes.length)
		return;
	const rows = [...groupBy(r.series, (s) => s.kind).values()].flatMap((g) =>
		[...g].sort((a, b) => b.bytes_per_sec - a.bytes_per_sec).slice(0, 5));
	section('top' + (several ? r.index + 1 : ''), (several ? r.label + ': ' : '') + 'Fastest settings', {class: 'full', nav: 'Fastest'},
		dataTable('top', [
			{head: 'direction', value: (s) => s.kind, kind: 'text'},
			...axes.map((a) => ({head: spacedWords(a.name), value: (s) => s.settings[a.name], show: (v) => setting(a.name, v)})),
			{head: 'bandwidth', value: (s) => s.bytes_per_sec, kind: 'rate'},
			{head: 'of the limit', value: (s) => s.limit.share, kind: 'percent'},
			{head: 'CPU', value: (s) => s.cpu.sec_per_gib, kind: 'cpu'},
		], rows));
}

/* ------------------------------------------------------------------ flows */

/* From where bytes come to where they go, in the order of a cache's tiers; other names as they come. */
const flowOrder = ['requests', 'new entries', 'GPU', 'CPU', 'storage', 'deleted'];
const flowColours = [7, 3, 2, 4, 0, 5];

/* Bytes that went from tier to tier: bands as thick as their share. */
function flowsOf(r) {
	const place = (f, key) => flowOrder.includes(f[key]) ? flowOrder.indexOf(f[key]) : flowOrder.length;
	const flows = r.flows.filter((f) => f.bytes > 0).sort((a, b) => place(a, 'from') - place(b, 'from') || place(a, 'to') - place(b, 'to'));
	const total = flows.reduce((sum, f) => sum + f.bytes, 0);
	const narrow = innerWidth < 600;
	const room = 300, gap = 14, least = 36, width = narrow ? 380 : 760, edge = narrow ? 96 : 150;
	const side = (key) => {
		const places = new Map();
		let y = 14;
		for (const [name, list] of [...groupBy(flows, (f) => f[key])].sort((a, b) => place(a[1][0], key) - place(b[1][0], key))) {
			const h = Math.max(4, room * list.reduce((sum, f) => sum + f.bytes, 0) / total);
			places.set(name, {y, h, used: 0});
			y += Math.max(h + gap, least); /* two lines of text beside each */
		}
		return {places, end: y};
	};
	const left = side('from'), right = side('to');
	const svg = el('svg', {class: 'flows', viewBox: `0 0 ${width} ${Math.max(left.end, right.end)}`, role: 'img',
		'aria-label': flows.map((f) => `${f.from} to ${f.to}: ${formatValue('size', f.bytes)}`).join('; ')});
	const tiers = [...new Set(flows.flatMap((f) => [f.from, f.to]))];
	const mark = (name) => `var(--c${flowOrder.includes(name) ? flowColours[flowOrder.indexOf(name)] : tiers.indexOf(name) % 8})`;
	for (const f of flows) {
		const a = left.places.get(f.from), b = right.places.get(f.to), h = Math.max(1.5, room * f.bytes / total);
		const y1 = a.y + a.used, y2 = b.y + b.used, x1 = edge, x2 = width - edge, m = (x1 + x2) / 2;
		a.used += h;
		b.used += h;
		svg.append(el('path', {fill: mark(f.from), opacity: '.45',
			d: `M${x1},${y1}C${m},${y1} ${m},${y2} ${x2},${y2}V${y2 + h}C${m},${y2 + h} ${m},${y1 + h} ${x1},${y1 + h}Z`},
		el('title', {}, `${f.from} \u2192 ${f.to}: ${formatValue('size', f.bytes)}`)));
	}
	for (const [from, places] of [[true, left.places], [false, right.places]])
		for (const [name, p] of places) {
			const sum = flows.filter((f) => f[from ? 'from' : 'to'] === name).reduce((n, f) => n + f.bytes, 0);
			const anchor = {x: from ? edge - 12 : width - edge + 12, 'text-anchor': from ? 'end' : 'start'};
			svg.append(el('rect', {x: from ? edge - 6 : width - edge, y: p.y, width: 6, height: p.h, fill: mark(name)}),
				el('text', {...anchor, y: p.y + p.h / 2}, name),
				el('text', {...anchor, y: p.y + p.h / 2 + 15, class: 'amount'}, formatValue('size', sum)));
		}
	return svg;
}

function addFlows(r) {
	if (!r.flows || !r.flows.some((f) => f.bytes > 0))
		return;
	section('flows' + (several ? r.index + 1 : ''), (several ? r.label + ': ' : '') + 'Flows between tiers', {class: 'full', nav: 'Flows'},
		flowsOf(r),
		dataTable('flows', [
			{head: 'from', value: (f) => f.from, kind: 'text'},
			{head: 'to', value: (f) => f.to, kind: 'text'},
			{head: 'bytes', value: (f) => f.bytes, kind: 'size'},
			{head: 'operations', value: (f) => f.ops, kind: 'count'},
		], r.flows.filter((f) => f.bytes > 0)));
}
