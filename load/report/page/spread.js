/* SPDX-License-Identifier: Apache-2.0 */
/* How latencies are spread, and how a series went over time. */

/*
 * A series has the same colour in all results, which differ in their dashes and
 * dots.  Of many series those chosen have the colours of their kind in turn.
 */
const dashes = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
const dots = ['circle', 'triangle', 'rectRot', 'crossRot'];
const isMany = (list) => list.length > 12;
function lineVariable(list, chosen, s) {
	const others = isMany(list) ? [...chosen] : s.result.series;
	return kindVariable(s, Math.max(0, others.filter((x) => x.kind === s.kind).findIndex((x) => x.name === s.name)));
}

/*
 * Which series a chart shows: a checkbox each, or, when there are many, those
 * chosen and a list of the others.  Calls change(chosen).
 */
function seriesPicker(label, list, chosen, change) {
	const box = el('fieldset', {class: 'picks'}, el('legend', {class: 'hidden'}, label));
	const update = () => {
		const focus = box.contains(document.activeElement);
		const shown = isMany(list) ? list.filter((s) => chosen.has(s)) : list;
		box.replaceChildren(box.firstChild, ...shown.map((s) => pick(s)));
		if (isMany(list))
			box.append(dropdown('', [[null, 'Add a series\u2026'], ...list.filter((s) => !chosen.has(s)).map((s) => [s, s.label])],
				null, (s) => set(s, true)));
		if (focus && isMany(list))
			box.querySelector('select').focus();
	};
	const set = (s, on) => {
		if (!s)
			return;
		if (on)
			chosen.add(s);
		else
			chosen.delete(s);
		if (isMany(list))
			update();
		change();
	};
	const pick = (s) => {
		const input = el('input', {type: 'checkbox', checked: chosen.has(s), onchange: () => set(s, input.checked)});
		return el('label', {style: `--mark: var(${lineVariable(list, chosen, s)})`}, input, s.label);
	};
	update();
	return box;
}

/* At first what is worth a look: all of a few, the best of many. */
function firstChoice(list) {
	if (list.length <= 6)
		return new Set(list);
	return new Set([...groupBy(list, (s) => s.result.index + s.kind).values()].map((g) => bestOf(g, (s) => s.bytes_per_sec)));
}

/* ------------------------------------------------------------ distribution */

/* Latencies are counted in finer buckets than an eye wants: join them into steps of equal ratio. */
function densityPoints(s) {
	const buckets = s.histogram.buckets;
	const total = buckets.reduce((sum, b) => sum + b[2], 0);
	const low = buckets[0][0], high = buckets[buckets.length - 1][1];
	const steps = Math.min(120, Math.max(12, Math.ceil(2.2 * Math.cbrt(total))));
	const ratio = Math.max(Math.pow(high / Math.max(low, 1), 1 / steps), 1.004);
	const counts = new Map();
	for (const [from, to, n] of buckets) {
		const i = Math.floor(Math.log(Math.sqrt(Math.max(from, 1) * to) / Math.max(low, 1)) / Math.log(ratio) + 1e-9);
		counts.set(i, (counts.get(i) || 0) + n);
	}
	const last = Math.max(...counts.keys());
	const points = [];
	for (let i = -1; i <= last + 1; i++)
		points.push({x: Math.max(low, 1) * Math.pow(ratio, i) / 1e9, y: (counts.get(i) || 0) / total});
	return points;
}

/* Latency against the share that is faster, on an axis of nines. */
function percentilePoints(s) {
	const total = s.histogram.buckets.reduce((sum, b) => sum + b[2], 0);
	const points = [];
	let below = 0;
	for (const [from, to, n] of s.histogram.buckets) {
		points.push({x: 1 / (1 - below / total), y: from / 1e9});
		below += n;
		if (below < total)
			points.push({x: 1 / (1 - below / total), y: to / 1e9});
		else
			points.push({x: total, y: valueAt(s, 'latency.max')});
	}
	return points;
}

function ninesScale(x) {
	const p = 100 * (1 - 1 / x);
	return x < 1.001 ? 'p0' : 'p' + (p >= 99 ? p.toFixed(Math.max(0, Math.ceil(Math.log10(x)) - 2)) : p.toFixed(0));
}

function lineDatasets(list, chosen, points, more) {
	return list.filter((s) => chosen.has(s)).map((s) => {
		const c = cssVariable(lineVariable(list, chosen, s));
		const n = s.result.index % 4;
		return {label: s.label, series: s, data: points(s), borderColor: c, backgroundColor: fade(c, 0.16),
			borderWidth: 2, borderDash: dashes[n], pointStyle: dots[n], pointRadius: 0, pointHoverRadius: 4, pointHitRadius: 8, showLine: true, ...more};
	});
}

const levels = ['p50', 'p90', 'p99', 'p99.9', 'p99.99'];

function percentileTable(datasets) {
	return {
		head: ['series', ...levels, 'max'],
		rows: datasets.map((d) => [d.label, ...levels.map((p) => formatValue('time', valueAt(d.series, 'latency.' + p))),
			formatValue('time', valueAt(d.series, 'latency.max'))]),
	};
}

function distributionChart(list, chosen, mode) {
	const shape = mode === 'shape';
	const datasets = lineDatasets(list, chosen, shape ? densityPoints : percentilePoints, shape ? {stepped: true, fill: 'origin'} : {});
	const marked = datasets.length > 2 ? [] : datasets.flatMap((d) => ['p50', 'p99', 'p99.9'].map((p) =>
		({value: valueAt(d.series, 'latency.' + p), text: p, colour: d.borderColor}))).filter((m) => m.value !== null);
	const label = (i) => ' ' + i.dataset.label + ': ' + (shape
		? formatValue('percent', i.parsed.y) + ' near ' + formatValue('time', i.parsed.x)
		: ninesScale(i.parsed.x) + ' = ' + formatValue('time', i.parsed.y));
	return {
		type: 'scatter',
		title: shape ? 'Distribution of latencies' : 'Latency by percentile',
		data: {datasets},
		options: {
			plugins: {tooltip: {callbacks: {label}}, legend: {display: false}, marks: {list: shape ? marked : []}},
			scales: shape ? {
				x: logAxis('latency', 'time', axisBounds(datasets.flatMap((d) => d.data.map((p) => p.x)))),
				y: axis('share of operations', 'percent', {beginAtZero: true}),
			} : {
				x: axis('percentile', null, {type: 'logarithmic', min: 1,
					afterBuildTicks: (scale) => {
						scale.ticks = [1, 2, 10, 100, 1000, 10000, 100000].filter((v) => v <= scale.max).map((value) => ({value}));
					},
					ticks: {callback: ninesScale, maxRotation: 0}}),
				y: logAxis('latency', 'time', axisBounds(datasets.flatMap((d) => d.data.map((p) => p.y)))),
			},
		},
		table: percentileTable(datasets),
	};
}

const minOperations = 10; /* operations that can be called a distribution */

function addDistribution() {
	const list = series.filter((s) => s.ops >= minOperations && s.histogram.buckets.length);
	if (!list.length)
		return;
	const chosen = firstChoice(list);
	let mode = 'shape';
	const s = section('distribution', 'Latency distribution', {class: 'full', nav: 'Distribution'});
	s.querySelector('.head').append(toggle('How it is drawn', [['shape', 'distribution'], ['levels', 'percentiles']], mode,
		(v) => {
			mode = v;
			redraw(entry);
		}));
	s.append(seriesPicker('Series in the distribution', list, chosen, () => redraw(entry)));
	const entry = addChart(s, 'chart-distribution', () => distributionChart(list, chosen, mode), true);
}

/* -------------------------------------------------------------------- time */

const overTime = {
	bandwidth: {
		text: 'bandwidth per second', kind: 'rate', x: 'seconds since the start', log: false,
		points: (s) => s.per_second.t.map((t, i) => ({x: t, y: s.per_second.bytes[i] / (s.per_second.span[i] || 1)})),
	},
	worst: {
		text: 'worst latency per second', kind: 'time', x: 'seconds since the start', log: true,
		points: (s) => s.per_second.t.map((t, i) => ({x: t, y: s.per_second.latency_max[i]})),
	},
	each: {
		text: 'each operation', kind: 'time', x: 'operation', log: true, dots: true,
		points: (s) => (s.samples || []).map((y, i) => ({x: i + 1, y})),
	},
};

function timeChart(list, chosen, mode) {
	const m = overTime[mode];
	const few = list.every((s) => m.points(s).length < 60);
	const datasets = lineDatasets(list, chosen, m.points, m.dots ? {showLine: false, pointRadius: 2} : {pointRadius: few ? 3 : 0});
	const longest = Math.max(0, ...datasets.map((d) => d.data.length));
	const rows = [...Array(Math.min(longest, 1000)).keys()];
	return {
		type: 'scatter',
		title: 'Over time: ' + m.text,
		data: {datasets},
		options: {
			plugins: {tooltip: {callbacks: {label: (i) => ' ' + i.dataset.label + ': ' + formatValue(m.kind, i.parsed.y) + ' at ' + i.parsed.x}},
				legend: {display: false}},
			scales: {
				x: axis(m.x, null, {beginAtZero: true, ticks: {precision: 0, maxRotation: 0}}),
				y: m.log ? logAxis('', m.kind, axisBounds(datasets.flatMap((d) => d.data.map((p) => p.y)))) : axis('', m.kind, {beginAtZero: true}),
			},
		},
		table: {
			head: [m.x, ...datasets.map((d) => d.label)],
			rows: rows.map((i) => [String(m.dots ? i + 1 : i), ...datasets.map((d) => formatValue(m.kind, d.data[i] && d.data[i].y))]),
		},
	};
}

function addTime() {
	const list = series.filter((s) => s.per_second.t.length >= 3 || s.ops >= minOperations);
	if (!list.length)
		return;
	const chosen = firstChoice(list);
	const long = list.filter((s) => s.per_second.t.length >= 5).length * 2 >= list.length;
	/* A cache and a replay have the bandwidth over time in a section of their own. */
	const told = list.some((x) => (x.result.kv || x.result.replay || {seconds: {t: []}}).seconds.t.length > 1);
	const all = list.every((x) => x.result.kv || x.result.replay);
	const samples = list.some((x) => (x.samples || []).length);
	let mode = all ? (samples ? 'each' : 'worst') : long || !samples ? 'bandwidth' : 'each';
	const s = section('time', told ? 'Single operations' : 'Over time', {class: 'full'});
	const modes = Object.entries(overTime).filter(([m]) => (m !== 'each' || samples) && (m !== 'bandwidth' || !all));
	s.querySelector('.head').append(toggle('What is shown', modes.map(([m, o]) => [m, o.text]), mode, (v) => {
		mode = v;
		redraw(entry);
	}));
	s.append(seriesPicker('Series over time', list, chosen, () => redraw(entry)));
	const entry = addChart(s, 'chart-time', () => timeChart(list, chosen, mode));
}
