/* SPDX-License-Identifier: Apache-2.0 */
/* What is in a trace: `penstock trace stat`. */

const traces = page.traces.map((t, i) => ({...t.result, label: t.name, index: i}));
const traceHead = (t) => traces.length > 1 ? t.label + ': ' : '';
const traceId = (t) => traces.length > 1 ? String(t.index + 1) : '';

function bigCard(title, mark, kind, value, text, pairs) {
	const [number, unit] = formatValue(kind, value).split('\u00a0');
	return el('article', {class: 'card', style: `--mark: var(${mark})`}, el('h3', {}, title),
		el('div', {class: 'big', 'data-value': value}, number, unit ? el('small', {}, ' ' + unit) : null),
		el('p', {}, text), figureList(pairs));
}

function traceCards(t) {
	const sum = (op) => t.operations.filter((o) => o.operation === op).reduce((n, o) => ({rows: n.rows + o.rows, bytes: n.bytes + o.bytes}), {rows: 0, bytes: 0});
	const [reads, writes] = [sum('Read'), sum('Write')], sec = t.span_seconds || null;
	const rate = (n) => formatValue('rate', sec && n / sec);
	return el('div', {class: 'cards'},
		bigCard('rows', '--c3', 'count', t.rows, `${t.format}, ${formatValue('time', t.span_seconds)}`, [
			['rows per second', formatValue('count', sec && t.rows / sec)], ['bad rows', formatValue('count', t.bad.rows)], ['failed operations', formatValue('count', t.failed)]]),
		bigCard('read', '--r0', 'size', reads.bytes, `${formatValue('count', reads.rows)} operations`, [['asks for', rate(reads.bytes)],
			['of objects not there before', formatValue('percent', t.reuse.reads ? t.reuse.first_reads / t.reuse.reads : null)]]),
		bigCard('written', '--w0', 'size', writes.bytes, `${formatValue('count', writes.rows)} operations`, [['asks for', rate(writes.bytes)]]),
		bigCard('objects', '--c2', 'count', t.objects.keys, formatValue('size', t.objects.bytes) + ' together', [
			['at most at once', formatValue('size', t.objects.peak_bytes)], ['counted', t.objects.exact ? 'all' : `one of ${t.objects.one_of}`],
			['median size', formatValue('size', t.sizes.p50)], ['largest', formatValue('size', t.sizes.max)]]));
}

/* Bars or points of one column. */
function columnChart(title, label, kind, xs, ys, colour, xTitle) {
	return {
		type: 'bar',
		title,
		data: {labels: xs, datasets: [{label, data: ys, backgroundColor: fade(cssVariable(colour), 0.55), borderColor: cssVariable(colour), borderWidth: 1}]},
		options: {
			plugins: {legend: {display: false}, tooltip: tooltip(kind)},
			scales: {x: {title: {display: true, text: xTitle}, ticks: {maxRotation: 0, autoSkip: true}, grid: {display: false}},
				y: axis('', kind, {beginAtZero: true, max: kind === 'percent' ? 1 : undefined})},
		},
		table: {head: [xTitle, label], rows: xs.map((x, i) => [x, formatValue(kind, ys[i])])},
	};
}

function addTrace(t) {
	const [head, id] = [traceHead(t), traceId(t)], sizes = t.sizes.powers_of_two, caches = t.reuse.lru_cache, w = t.working_set.windows;
	const chart = (key, title, nav, full, make) => addChart(section(key + id, head + title, {class: full ? 'full' : '', nav}), 'chart-' + key + id, make, full);
	section('trace' + id, head + 'Summary', {class: 'full plain', nav: 'Summary'}, traceCards(t)).querySelector('.head').classList.add('hidden');
	if (t.bad.rows)
		addNote('warn', `${head}${t.bad.rows} rows could not be understood and are left out: ${t.bad.first}`);
	if (sizes.length)
		chart('sizes', 'Sizes of operations', 'Sizes', false, () => columnChart('Sizes of operations', 'rows', 'count',
			sizes.map((s) => formatValue('size', s.from)), sizes.map((s) => s.rows), '--c0', 'from this size to twice that'));
	if (caches.length)
		chart('reuse', 'What a cache would hold', 'Cache', false, () => columnChart('What a cache would hold', 'reads it would have had', 'percent',
			caches.map((c) => formatValue('size', c.bytes)), caches.map((c) => c.share), '--c2', 'size of an LRU cache'));
	if (w.length > 1)
		chart('windows', 'The trace over time', 'Over time', true, () => secondsChart({text: 'read and written', kind: 'rate', from: 0, lines: (x) => [
			['read', '--r0', x.map((v) => ({x: v.from_seconds, y: v.read_bytes / t.working_set.seconds}))],
			['written', '--w0', x.map((v) => ({x: v.from_seconds, y: v.write_bytes / t.working_set.seconds}))]]}, [{label: t.label, index: 0}], () => w));
	if (t.operations.length)
		section('operations' + id, head + 'Operations', {class: 'full', nav: 'Operations'}, dataTable('operations' + id, [
			{head: 'operation', value: (o) => o.operation, kind: 'text'}, {head: 'tier', value: (o) => o.tier, kind: 'text'},
			{head: 'phase', value: (o) => o.phase, kind: 'text'}, {head: 'rows', value: (o) => o.rows, kind: 'count'},
			{head: 'bytes', value: (o) => o.bytes, kind: 'size'}, {head: 'mean', value: (o) => o.rows ? o.bytes / o.rows : null, kind: 'size'}], t.operations, {copy: true}));
}
