/* SPDX-License-Identifier: Apache-2.0 */
/* Bandwidth and latency by size of the operations. */

/* What the axis shows: sizes where each means one series of a kind, else names. */
function categories(list) {
	const unique = [...groupBy(list, (s) => s.result.index + s.kind + s.size).values()].every((g) => g.length === 1);
	const key = unique && list.every((s) => s.size !== null) ? (s) => s.size : (s) => s.name;
	const keys = [...new Set(list.map(key))];
	if (keys.every((k) => typeof k === 'number'))
		keys.sort((a, b) => a - b);
	return {keys, key, labels: keys.map((k) => typeof k === 'number' ? formatValue('size', k) : k)};
}

/* One dataset per result and kind, in the order of the categories. */
function kindDatasets(list, cats, more) {
	return [...groupBy(list, (s) => s.result.index + s.kind).values()].map((group) => {
		const of = new Map(group.map((s) => [cats.key(s), s]));
		const found = cats.keys.map((k) => of.get(k) || null);
		return {
			label: (several ? group[0].result.label + ': ' : '') + group[0].kind,
			group: found,
			colour: kindColour(group[0]),
			...more,
		};
	});
}

function datasetTable(first, labels, datasets, kind) {
	return {
		head: [first, ...datasets.map((d) => d.label)],
		rows: labels.map((label, i) => [label, ...datasets.map((d) => {
			const v = d.data[i];
			return formatValue(kind, typeof v === 'object' && v ? v.y : v);
		})]),
	};
}

/* What the device could do; of results with the same limit only one line. */
function limitsOf(list, cats) {
	const known = kindDatasets(list, cats).filter((d) => d.group.some((s) => s && s.limit.bytes_per_sec));
	return [...groupBy(known, (d) => JSON.stringify(d.group.map((s) => s && [s.kind, s.limit.bytes_per_sec]))).values()]
		.map((same) => ({...same[0], label: 'limit: ' + (same.length > 1 ? same[0].group.find(Boolean).kind : same[0].label)}));
}

function bandwidthChart(list, per) {
	const cats = categories(list);
	const path = per === 'run' ? 'bytes_per_sec' : 'bandwidth.mean';
	const bars = kindDatasets(list, cats).map((d) => ({
		...d,
		data: d.group.map((s) => s && valueAt(s, path)),
		whiskers: per === 'run' ? null : d.group.map((s) => s && valueAt(s, 'bandwidth.ci95')),
		backgroundColor: fade(d.colour, 0.75),
		borderColor: d.colour,
		borderWidth: 1,
		borderRadius: 4,
		pointStyle: 'rectRounded',
		maxBarThickness: 60,
		order: 2,
	}));
	const limits = limitsOf(list, cats).map((d) => ({
		type: 'line',
		label: d.label,
		data: d.group.map((s) => s && s.limit.bytes_per_sec),
		borderColor: d.colour,
		backgroundColor: d.colour,
		borderDash: [6, 4],
		borderWidth: 2,
		pointStyle: 'line',
		pointRadius: cats.keys.length === 1 ? 30 : 0,
		spanGaps: true,
		order: 1,
	}));
	return {
		type: 'bar',
		title: 'Bandwidth by size',
		data: {labels: cats.labels, datasets: [...bars, ...limits]},
		options: {
			plugins: {tooltip: tooltip('rate')},
			scales: {x: axis('', null, {grid: {display: false}}), y: axis('', 'rate', {beginAtZero: true})},
		},
		table: datasetTable('size', cats.labels, [...bars, ...limits], 'rate'),
	};
}

function addBandwidth() {
	let per = 'run';
	const s = section('bandwidth', 'Bandwidth', {});
	s.querySelector('.head').append(toggle('What is counted', [['run', 'whole run'], ['op', 'mean of operations']], per,
		(v) => {
			per = v;
			redraw(entry);
		}));
	const entry = addChart(s, 'chart-bandwidth', () => bandwidthChart(plainSeries, per));
}

/* The middle of all operations as a line, the tail as fainter ones. */
const tails = [['latency.median', 'median', [], 1], ['latency.p99', 'p99', [6, 4], 0.8], ['latency.p99.9', 'p99.9', [2, 3], 0.8]];

function latencyChart(list) {
	const cats = categories(list);
	const datasets = kindDatasets(list, cats).flatMap((d) => tails.slice(0, several ? 2 : 3).map(([path, name, dash, strength]) => ({
		label: d.label + ' ' + name,
		data: d.group.map((s) => s && valueAt(s, path)),
		borderColor: fade(d.colour, strength),
		backgroundColor: fade(d.colour, strength),
		borderDash: dash,
		borderWidth: 2,
		pointRadius: 4,
		pointHoverRadius: 6,
		pointStyle: {median: 'circle', p99: 'rectRot', 'p99.9': 'triangle'}[name],
	})));
	return {
		type: 'line',
		title: 'Latency by size',
		data: {labels: cats.labels, datasets},
		options: {
			plugins: {tooltip: tooltip('time')},
			scales: {x: axis('', null, {offset: true, grid: {display: false}}), y: logAxis('', 'time', axisBounds(datasets.flatMap((d) => d.data)))},
		},
		table: datasetTable('size', cats.labels, datasets, 'time'),
	};
}

function addLatency() {
	addChart(section('latency', 'Latency', {}), 'chart-latency', () => latencyChart(plainSeries));
}

/* ----------------------------------------------------------------- fio */

function addFio() {
	const rows = results.flatMap((r) => (r.fio || []).map((f) => ({r, f})));
	if (!rows.length)
		return;
	section('fio', 'Against fio', {class: 'full'},
		el('p', {class: 'lead'}, 'The same work done by fio. A ratio above 1 means that penstock is faster.'),
		dataTable('fio', [
			{head: several ? 'result, series' : 'series', value: (x) => (several ? x.r.label + ': ' : '') + x.f.series, kind: 'text'},
			{head: 'penstock', value: (x) => x.f.ours_bytes_per_sec, kind: 'rate'},
			{head: 'fio', value: (x) => x.f.bytes_per_sec, kind: 'rate'},
			{head: 'ratio', value: (x) => x.f.ratio, kind: 'count'},
			{head: 'mean latency of fio', value: (x) => x.f.latency_mean, kind: 'time'},
			...(rows.some((x) => x.f.why_not) ? [{head: 'remark', value: (x) => x.f.why_not || '', kind: 'text'}] : []),
		], rows));
}
