/* SPDX-License-Identifier: Apache-2.0 */
/* KV stores under a cache or a replay: what they had, what they let go, and what a larger one would have had. */

const storeResults = results.filter((r) => r.store);

/* What the capacity was meant to be is the same for runs that differ in nothing but policy. */
function curveChart() {
	const sizes = [...new Set(storeResults.map((r) => r.store.capacity_bytes))].sort((a, b) => a - b);
	const datasets = [...groupBy(storeResults, (r) => r.store.policy)].map(([policy, list], i) => ({
		label: policy, borderColor: cssVariable(['--c0', '--c1'][i]), backgroundColor: fade(cssVariable(['--c0', '--c1'][i]), 0.16), borderWidth: 2,
		borderDash: dashes[i], pointStyle: dots[i], pointRadius: 4, spanGaps: true,
		data: sizes.map((s) => valueAt(list.find((r) => r.store.capacity_bytes === s) || {}, 'store.hit_rate')),
	}));
	const labels = sizes.map((s) => formatValue('size', s));
	return {
		type: 'line',
		title: 'Hit rate against capacity',
		data: {labels, datasets},
		options: {plugins: {tooltip: tooltip('percent')},
			scales: {x: axis('capacity', null, {grid: {display: false}}), y: axis('', 'percent', {min: 0, max: 1})}},
		table: {head: ['capacity', ...datasets.map((d) => d.label)], rows: labels.map((l, i) => [l, ...datasets.map((d) => formatValue('percent', d.data[i]))])},
	};
}

function addStores() {
	if (!storeResults.length)
		return;
	section('store', 'The store', {class: 'full', nav: 'Store'}, dataTable('store', [
		...(several ? [{head: 'of', value: (r) => r.label, kind: 'text'}] : []),
		{head: 'policy', value: (r) => r.store.policy, kind: 'text'}, {head: 'capacity', value: (r) => r.store.capacity_bytes, kind: 'size'},
		{head: 'values', value: (r) => r.store.entries, kind: 'count'}, {head: 'gets', value: (r) => r.store.gets, kind: 'count'},
		{head: 'hits', value: (r) => r.store.hit_rate, kind: 'percent'}, {head: 'from memory', value: (r) => r.store.hits_recent, kind: 'count'},
		{head: 'made room', value: (r) => r.store.evictions, kind: 'count'}, {head: 'set', value: (r) => r.store.set_bytes, kind: 'size'},
		{head: 'written per byte set', value: (r) => r.store.written_per_set, show: formatDigits},
	], storeResults, {copy: true}));
	if (new Set(storeResults.map((r) => r.store.capacity_bytes)).size > 1)
		addChart(section('storecurve', 'Hit rate against capacity', {class: 'full', nav: 'Curve'}), 'chart-store-curve', curveChart, true);
	for (const r of storeResults)
		if (r.store.errors || r.store.corrupt || r.store.directories_out)
			addNote('bad', `${several ? r.label + ': ' : ''}${r.store.corrupt} values were not what was written, ${r.store.errors} failed by their drive, ${r.store.directories_out} directories were left out.`);
}
