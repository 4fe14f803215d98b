/* SPDX-License-Identifier: Apache-2.0 */
/* The top of the page: title, what must be known first, cards. */

function deviceOf(r) {
	const names = r.targets.map((t) => t.block_device && (t.block_device.model || t.block_device.name) ||
		t.file_system || t.folder).filter((name) => name !== 'not told');
	return [...new Set(names)].join(', ');
}

function addTitle() {
	const first = results[0] || {};
	const what = page.compare ? 'compare' : [...new Set([...results.map((r) => r.command),
		...traces.map(() => 'trace stat'), ...summaries.map(() => 'kv mlperf')])].join(', ');
	const title = 'penstock ' + what + ': ' + [...new Set([...results.map(deviceOf), ...traces.map((t) => t.file),
		...summaries.map((s) => s.run_datetime)])].filter(Boolean).join(', ');
	const engines = [...new Set(series.map((s) => s.ran.engine + ', ' + s.ran.direct))];
	document.title = title;
	document.getElementById('title').textContent = title;
	document.getElementById('version').textContent = page.penstock;
	document.getElementById('subtitle').textContent = [
		several ? results.length + ' results' : (first.time || '').replace('T', ' ').replace('Z', ' UTC'),
		...new Set(results.map((r) => r.machine.cpu || r.machine.kernel)),
		engines.length < 4 ? engines.join('; ') : engines.length + ' engines and ways',
	].filter(Boolean).join(' \u00b7 ');
}

function addNote(kind, text) {
	document.getElementById('main').append(el('p', {class: 'full note ' + kind}, text));
}

function addWarnings() {
	const failed = series.filter((s) => s.errors);
	const two = plainSeries.filter((s) => s.distribution.bimodal);
	for (const r of results)
		if (r.partial)
			addNote('warn', (several ? r.label + ': ' : '') + 'Partial result: ' +
				(r.partial_why || 'it ended early') + '. What follows is what was measured up to there.');
	const timed = series.filter((s) => s.ended_by === 'time');
	if (timed.length)
		addNote('warn', 'Ended by the limit of time, with fewer operations than asked for: ' +
			timed.map((s) => `${s.label}, ${s.ops}`).join('; ') + '.');
	if (failed.length)
		addNote('bad', failed.map((s) => `${s.label}: ${s.errors} operations failed (${s.first_error})`).join('; '));
	for (const r of results)
		if (!r.series.length && !r.kv)
			addNote('warn', (several ? r.label + ': ' : '') + 'Nothing was measured: this result has no series.');
	if (two.length)
		addNote('warn', 'Two kinds of latencies: ' +
			two.map((s) => s.label + ', ' + s.distribution.peaks.map((p) => formatTick('percent', p.share) +
				' near ' + formatValue('time', p.latency)).join(' and ')).join('; ') +
			'. A mean or median describes neither; look at the distribution.');
	if (page.thinned)
		addNote('warn', page.thinned);
}

/* ------------------------------------------------------------------- cards */

function figureList(pairs) {
	return el('dl', {}, ...pairs.flatMap(([name, value]) =>
		[el('dt', {}, name), el('dd', {}, value)]));
}

function limitMeter(s) {
	const share = s.limit.share;
	if (share === null)
		return [el('p', {}, 'Device limit: ' + s.limit.how)];
	const note = s.limit.note || (share > 1 ? 'above 100 %: faster than the limit that was given' : null);
	return [
		el('div', {class: 'meter', role: 'meter', 'aria-valuemin': '0', 'aria-valuemax': '100',
			'aria-valuenow': (100 * share).toFixed(1), 'aria-label': 'share of the device limit'},
		el('i', {style: `width: ${Math.min(100, 100 * share)}%`})),
		el('p', {class: 'share', 'data-value': share, title: s.limit.how},
			formatValue('percent', share) + ' of the device limit, ' + formatValue('rate', s.limit.bytes_per_sec)),
		...(note ? [el('p', {class: 'limit-note'}, note[0].toUpperCase() + note.slice(1) + '.')] : []),
	];
}

/* The best series of one kind of one result. */
function card(list) {
	const t = list[0].result.tune;
	const winner = t && list.find((x) => x.name === x.kind + '_' + t.winner);
	const s = winner || bestOf(list, (x) => x.bytes_per_sec);
	/* What was not stored has no bandwidth of storage. */
	const stored = s.ran.direct !== 'nothing moved';
	const [value, unit] = stored ? formatValue('rate', s.bytes_per_sec).split('\u00a0') : [formatValue('count', s.ops), 'operations'];
	return el('article', {class: 'card', style: `--mark: var(${kindVariable(s, s.result.index)})`},
		el('h3', {}, (several ? s.result.label + ': ' : '') + (winner ? 'tuned ' : list.length > 1 ? 'best ' : '') + s.kind),
		el('div', {class: 'big', 'data-series': s.name, 'data-value': stored ? s.bytes_per_sec : s.ops}, value + ' ',
			el('small', {}, unit)),
		el('p', {}, s.name + (stored ? '' : ': nothing was stored')),
		...(stored ? limitMeter(s) : []),
		figureList([
			['median latency', formatValue('time', valueAt(s, 'latency.median'))],
			['99 % are below', formatValue('time', valueAt(s, 'latency.p99'))],
			['CPU', formatValue('cpu', s.cpu.sec_per_gib)],
			['page cache', s.cache.replace(/ \(.*/, '')],
		]));
}

function costCard(r) {
	const total = (key) => r.series.reduce((sum, s) => sum + s[key], 0), trace = r.kv && r.kv.mode === 'trace';
	return el('article', {class: 'card', style: '--mark: var(--c7)'},
		el('h3', {}, (several ? r.label + ': ' : '') + 'what it took'),
		el('div', {class: 'big', 'data-value': trace ? r.duration_sec : r.bytes_written},
			...formatValue(trace ? 'time' : 'size', trace ? r.duration_sec : r.bytes_written).split('\u00a0').map((x, i) => i ? el('small', {}, ' ' + x) : x)),
		el('p', {}, trace ? 'to make the trace' : 'written to the device: its wear'),
		figureList(trace ? [['rows', formatValue('count', r.kv.rows)]] : [
			['time', formatValue('time', r.duration_sec)],
			['operations', formatValue('count', total('ops'))],
			['moved', formatValue('size', total('bytes'))],
			['failed', formatValue('count', total('errors'))],
		]));
}

function addCards() {
	if (!results.length)
		return;
	const rows = results.map((r) => {
		const cards = el('div', {class: 'cards'});
		if (r.kv)
			cards.append(...kvCards(r));
		for (const list of r.kv ? [] : groupBy(series.filter((s) => s.result === r), (s) => s.kind).values())
			cards.append(card(list));
		cards.append(costCard(r));
		return cards;
	});
	const gib = results.some((r) => ['io', 'sweep', 'tune'].includes(r.command));
	const s = section('summary', 'Summary', {class: 'full plain'}, ...rows, el('p', {class: 'units'},
		'Bandwidth is in decimal units, 1 GB = 10\u2079 bytes; sizes and amounts are in binary ones, 1 GiB = 2\u00b3\u2070 bytes.' +
		(gib ? ' The commands io, sweep and tune print GiB/s, and GB/sec in the lines they share with DeepSpeed\u2019s, which is the same: 1.07 GB/s here are 1 GiB/s there.' : '')));
	s.querySelector('.head').classList.add('hidden');
}
