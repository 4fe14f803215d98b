/* SPDX-License-Identifier: Apache-2.0 */
/* The KV cache: what is in its tiers, who asked for what, and how the run went. */

const tierColours = ['--c2', '--c4', '--c0'];
const tierNames = {gpu: 'GPU', cpu: 'CPU', nvme: 'storage'};
const kvResults = results.filter((r) => r.kv);

/* What a tier is made of, for people. */
function tierKind(t, r) {
	return {absent: 'there is none', trace: 'only in the trace', bookkeeping: 'only counted',
		storage: r.settings.layout === 'slab' ? 'one file' : 'a file per entry'}[t.kind] || t.kind;
}

/* Did anything go to storage? */
function kvStored(r) {
	return r.kv.mode !== 'trace' && r.kv.tiers[2].read_bytes + r.kv.tiers[2].written_bytes > 0;
}

/* ------------------------------------------------------------------- cards */

function kvCard(title, mark, value, kind, text, pairs, name) {
	const [number, unit] = formatValue(kind, value).split('\u00a0');
	return el('article', {class: 'card', style: `--mark: var(${mark})`}, el('h3', {}, title),
		el('div', {class: 'big', 'data-kv': name, 'data-value': value}, number, unit ? el('small', {}, ' ' + unit) : null),
		el('p', {}, text), figureList(pairs));
}

function kvCards(r) {
	const k = r.kv, storage = k.tiers[2], sec = k.elapsed_sec || 1, head = several ? r.label + ': ' : '';
	const stored = kvStored(r), level = (of, name) => formatValue('time', of && of[name]);
	return [
		kvCard(head + 'tokens per second', '--c3', k.tokens / sec, 'count', `${formatValue('count', k.requests)} requests in ${formatValue('time', k.elapsed_sec)}`, [
			['requests per second', formatValue('count', k.requests / sec)],
			['median end to end', formatValue('time', (k.latency.end_to_end || {}).p50)],
			['95 % are below', formatValue('time', (k.latency.end_to_end || {}).p95)],
		], 'tokens'),
		kvCard(head + 'hit rate', '--c2', k.cache.hit_rate, 'percent', `${formatValue('count', k.cache.hits)} hits, ${formatValue('count', k.cache.misses)} misses`, [
			['of earlier turns', formatValue('count', k.cache.multi_turn_hits)],
			['of system prompts', formatValue('count', k.cache.system_hits)],
			['entries moved or deleted', formatValue('count', k.cache.evictions)],
		], 'hits'),
		...stored ? [kvCard(head + 'read from storage', '--r0', storage.read_bytes / sec, 'rate', formatValue('size', storage.read_bytes), [
			['median', level(storage.read, 'p50')],
			['95 % are below', level(storage.read, 'p95')],
			['at the device', level(storage.device_read, 'p95')],
		], 'read'),
		kvCard(head + 'written to storage', '--w0', storage.written_bytes / sec, 'rate', formatValue('size', storage.written_bytes), [
			['median', level(storage.write, 'p50')],
			['95 % are below', level(storage.write, 'p95')],
			['at the device', level(storage.device_write, 'p95')],
		], 'written')] : [],
	];
}

/* What must be known first. */
function addKvNotes(r) {
	const k = r.kv, e = k.errors, head = several ? r.label + ': ' : '';
	const failed = [[e.reads, 'read failed', 'reads failed'], [e.writes, 'write failed', 'writes failed'],
		[e.verify, 'object was not what was written', 'objects were not what was written']]
		.filter(([n]) => n).map(([n, one, many]) => `${n} ${n === 1 ? one : many}`);
	if (failed.length)
		addNote('bad', `${head}${failed.join(', ')}: ${e.first}`);
	if (k.tensor_ranks > 1)
		addNote('warn', `${head}This run is one of ${k.tensor_ranks} tensor-parallel ranks: bytes, limits and bandwidths are of that rank, not of the node.`);
	if (k.mode === 'trace')
		addNote('warn', head + 'A trace: nothing was stored, so operations took no time.');
	if (k.compat)
		addNote('warn', head + 'Counted as kv-cache.py does (--compat): what ended after the interval is included, hits count before they are read.');
	if (k.late_operations)
		addNote('warn', `${head}${formatValue('count', k.late_operations)} operations ended after the interval and are not counted.`);
}

/* ------------------------------------------------------------------- tiers */

function usedMeter(t) {
	if (t.limit_bytes === null || !t.limit_bytes)
		return null;
	const share = t.used_bytes / t.limit_bytes;
	return el('div', {class: 'meter', role: 'meter', 'aria-valuemin': '0', 'aria-valuemax': '100', 'aria-valuenow': (100 * share).toFixed(1),
		'aria-label': 'share of the limit in use'}, el('i', {style: `width: ${Math.min(100, 100 * share)}%`}));
}

function tierCard(t, i, r) {
	const limit = t.limit_bytes === null ? (r.kv.model ? ' of no limit' : '') : ' of ' + formatValue('size', t.limit_bytes);
	return el('article', {class: 'card', 'data-tier': t.name, style: `--mark: var(${tierColours[i]})`},
		el('h3', {}, tierNames[t.name] + ': ' + tierKind(t, r)), t.how ? el('p', {}, t.how) : null,
		el('p', {}, `${formatValue('count', t.entries)} entries, ${formatValue('size', t.used_bytes)}${limit}`), usedMeter(t),
		figureList([
			['written', formatValue('size', t.written_bytes)], ['of that from above', formatValue('size', t.evicted_in_bytes)],
			['read', formatValue('size', t.read_bytes)], ['of that on the way down', formatValue('size', t.evicted_out_bytes)],
			['deleted', formatValue('size', t.deleted_bytes)],
		]));
}

function addTiers(r) {
	section('tiers' + (several ? r.index + 1 : ''), (several ? r.label + ': ' : '') + 'Tiers' + (r.kv.tensor_ranks > 1 ? `, of one of ${r.kv.tensor_ranks} ranks` : ''), {class: 'full', nav: 'Tiers'},
		r.kv.model && el('p', {class: 'lead'}, `${r.kv.model.name}: ${formatValue('size', r.kv.model.bytes_per_token)} of KV cache per token.`),
		el('div', {class: 'cards'}, ...r.kv.tiers.map((t, i) => tierCard(t, i, r))));
}

/* -------------------------------------------------------------- over time */

/* A column of the seconds over another, where that is not 0. */
const ratioColumn = (s, a, b) => s.t.map((t, i) => ({x: t, y: s[b][i] ? s[a][i] / s[b][i] : null}));
const plainColumn = (s, name) => s.t.map((t, i) => ({x: t, y: s[name][i]}));

const kvTimes = {
	hits: {text: 'hit rate', kind: 'percent', lines: (s) => [['hit rate', '--c2',
		s.t.map((t, i) => ({x: t, y: s.hits[i] + s.misses[i] ? s.hits[i] / (s.hits[i] + s.misses[i]) : null}))]], from: 0, to: 1},
	storage: {text: 'storage bandwidth', kind: 'rate', lines: (s) => [
		['read', '--r0', ratioColumn(s, 'nvme_read_bytes', 'span')], ['written', '--w0', ratioColumn(s, 'nvme_write_bytes', 'span')]], from: 0},
	latency: {text: 'storage latency', kind: 'time', lines: (s) => [
		['mean of reads', '--r0', ratioColumn(s, 'read_latency_sum', 'read_ops')], ['mean of writes', '--w0', ratioColumn(s, 'write_latency_sum', 'write_ops')]], from: 0},
	tiers: {text: 'all tiers', kind: 'rate', lines: (s) => ['gpu', 'cpu', 'nvme'].map((t, i) => [tierNames[t] + ', read and written', tierColours[i],
		s.t.map((x, n) => ({x, y: s.span[n] ? (s[t + '_read_bytes'][n] + s[t + '_write_bytes'][n]) / s.span[n] : null}))]), from: 0},
	requests: {text: 'requests', kind: 'count', lines: (s) => [['completed per second', '--c3', ratioColumn(s, 'requests', 'span')],
		['waiting', '--c1', plainColumn(s, 'queued')], ['in work', '--c7', plainColumn(s, 'in_flight')]], from: 0},
	tokens: {text: 'tokens', kind: 'count', lines: (s) => [['tokens per second', '--c3', ratioColumn(s, 'tokens', 'span')]], from: 0},
};

/* Columns of seconds, of several results: @m is one of the lists above. */
function secondsChart(m, list, secondsOf) {
	const datasets = list.flatMap((r) => m.lines(secondsOf(r)).map(([name, c, data]) => ({
		label: (several ? r.label + ': ' : '') + name, data, borderColor: cssVariable(c), backgroundColor: fade(cssVariable(c), 0.16),
		borderWidth: 2, borderDash: dashes[r.index % 4], pointStyle: dots[r.index % 4], pointRadius: data.length < 60 ? 3 : 0,
		pointHoverRadius: 4, pointHitRadius: 8, showLine: true,
	})));
	const longest = Math.max(0, ...datasets.map((d) => d.data.length));
	return {
		type: 'scatter',
		title: 'Over time: ' + m.text,
		data: {datasets},
		options: {
			plugins: {tooltip: {callbacks: {label: (i) => ' ' + i.dataset.label + ': ' + formatValue(m.kind, i.parsed.y) + ' at ' + i.parsed.x + '\u00a0s'}}},
			scales: {x: axis('seconds since the start', null, {beginAtZero: true, ticks: {precision: 0, maxRotation: 0}}),
				y: axis('', m.kind, {min: m.from, max: m.to})},
		},
		table: {
			head: ['second', ...datasets.map((d) => d.label)],
			rows: [...Array(Math.min(longest, 1000)).keys()].map((i) => [String(datasets[0].data[i] ? datasets[0].data[i].x : i),
				...datasets.map((d) => formatValue(m.kind, d.data[i] && d.data[i].y))]),
		},
	};
}

function addKvTime() {
	if (!kvResults.some((r) => r.kv.seconds.t.length > 1))
		return;
	let mode = kvResults.some(kvStored) ? 'storage' : 'hits';
	const s = section('kvtime', 'The run over time', {class: 'full', nav: 'Run'});
	s.querySelector('.head').append(dropdown('', Object.entries(kvTimes).map(([m, o]) => [m, o.text]), mode, (v) => {
		mode = v;
		redraw(entry);
	}));
	const entry = addChart(s, 'chart-kv-time', () => secondsChart(kvTimes[mode], kvResults, (r) => r.kv.seconds), true);
}

/* -------------------------------------------------------------- latencies */

const kvLevels = ['mean', 'p50', 'p95', 'p99', 'p99.9', 'p99.99', 'max'];

function latencyRows(r) {
	const l = r.kv.latency, rows = [['request, end to end', l.end_to_end], ['storage, per request', l.storage],
		['generation', l.generation], ['prefill', l.prefill], ['decode', l.decode],
		...Object.entries(l.qos).map(([level, s]) => ['request, ' + level, s])];
	for (const t of r.kv.tiers)
		for (const [key, text] of [['read', 'object read'], ['write', 'object written'], ['device_read', 'read, at the device'], ['device_write', 'write, at the device'],
			['evict_read', 'read on the way down'], ['evict_write', 'written from above']])
			rows.push([tierNames[t.name] + ': ' + text, t[key]]);
	return rows.filter(([, s]) => s).map(([name, s]) => ({label: (several ? r.label + ': ' : '') + name, ...s}));
}

function addKvLatency() {
	const rows = kvResults.filter((r) => r.kv.mode !== 'trace').flatMap(latencyRows);
	if (!rows.length)
		return;
	section('kvlatency', 'Latencies', {class: 'full'}, dataTable('kv-latency', [
		{head: 'of', value: (x) => x.label, kind: 'text'}, {head: 'number', value: (x) => x.n, kind: 'count'},
		...kvLevels.map((p) => ({head: p, value: (x) => x[p], kind: 'time'})),
	], rows, {copy: true}));
}

function addHealth(r) {
	const h = r.kv.storage_health;
	if (r.kv.mode === 'trace' || !h.criteria.length)
		return;
	section('health' + (several ? r.index + 1 : ''), (several ? r.label + ': ' : '') + 'Storage health', {class: 'full', nav: 'Health'},
		el('p', {class: 'lead'}, 'The criteria of kv-cache.py; they are no part of MLPerf.'),
		dataTable('health' + (several ? r.index + 1 : ''), [
			{head: 'criterion', value: (c) => c.name, kind: 'text'},
			{head: 'is', value: (c) => c.actual, show: (v) => (typeof v === 'number' ? formatDigits(v) : v)},
			{head: 'unit', value: (c) => c.unit, kind: 'text'},
			{head: '', value: (c) => c.passed ? 'passed' : 'failed', kind: 'text', badge: (c) => c.passed ? 'good' : 'bad'},
		], h.criteria));
}
