/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of KV-cache runs for MLPerf Storage: `penstock kv mlperf`, or the reference's own. */

const summaries = page.summaries.map((s, i) => ({...s.result, label: s.name, index: i}));
const mlperfNames = {1: 'Max Storage Stress', 2: 'Storage Throughput', 3: 'Large Model'};
const mlperfName = (key) => key + (mlperfNames[key] ? ' ' + mlperfNames[key] : '');

/* It writes GiB and milliseconds; the page shows what the other pages do. */
function mlperfRow(key, o) {
	const of = (name, unit) => typeof o['aggregated_' + name] === 'number' ? o['aggregated_' + name] * unit : null;
	return {label: mlperfName(key), ranks: o.rank_count, trials: o.trial_count, partial: o.partial_failure,
		read: of('read_bandwidth_gbps', 2 ** 30), written: of('write_bandwidth_gbps', 2 ** 30), tokens: of('avg_throughput_tokens_per_sec', 1),
		efficiency: of('storage_throughput_tokens_per_sec', 1), p95: of('p95_latency_ms', 1e-3),
		deviceRead: of('device_read_p95_ms', 1e-3), deviceWrite: of('device_write_p95_ms', 1e-3),
		memory: (o.cpu_tier_ranks || []).length};
}

function mlperfCard(row) {
	return bigCard(row.label, '--r0', 'rate', row.read, 'read from storage, all ranks together', [
		['written', formatValue('rate', row.written)], ['tokens per second', formatValue('count', row.tokens)],
		['95 % of requests wait less for storage than', formatValue('time', row.p95)], ['trials', formatValue('count', row.trials)], ['ranks', formatValue('count', row.ranks)]]);
}

function addSummary(s) {
	const head = summaries.length > 1 ? s.label + ': ' : '', id = summaries.length > 1 ? String(s.index + 1) : '';
	const rows = Object.entries(s.options).map(([key, o]) => mlperfRow(key, o));
	const why = s.penstock && s.penstock.why_not;
	if (why)
		addNote('warn', `${head}Not as a submission must be: ${why}`);
	if (s.partial_failure)
		addNote('bad', `${head}Incomplete: ${Object.values(s.options).flatMap((o) => o.missing_files || []).join(', ') || 'a rank or trial failed'}`);
	for (const row of rows.filter((r) => r.memory))
		addNote('warn', `${head}${row.label}: ${row.memory} of ${row.ranks} ranks stored nothing; everything stayed in memory.`);
	const top = section('mlperf' + id, head + 'Summary', {class: 'full plain', nav: 'Summary'}, el('div', {class: 'cards'}, ...rows.filter((r) => r.trials).map(mlperfCard)));
	top.querySelector('.head').classList.add('hidden');
	if (!rows.length)
		return;
	section('options' + id, head + 'Options', {class: 'full', nav: 'Options'}, dataTable('options' + id, [
		{head: 'option', value: (r) => r.label, kind: 'text'}, {head: 'trials', value: (r) => r.trials, kind: 'count'}, {head: 'ranks', value: (r) => r.ranks, kind: 'count'},
		{head: 'read', value: (r) => r.read, kind: 'rate'}, {head: 'written', value: (r) => r.written, kind: 'rate'},
		{head: 'tokens/s', value: (r) => r.tokens, kind: 'count'},
		{head: 'per s of storage', value: (r) => r.efficiency, kind: 'count', title: 'tokens over the time that all requests together waited for storage'},
		{head: 'p95', value: (r) => r.p95, kind: 'time', title: 'per request; the worst of all ranks and trials'},
		{head: 'read p95', value: (r) => r.deviceRead, kind: 'time', title: 'at the device'}, {head: 'write p95', value: (r) => r.deviceWrite, kind: 'time', title: 'at the device'},
		{head: '', value: (r) => r.partial ? 'incomplete' : 'complete', kind: 'text', badge: (r) => r.partial ? 'bad' : 'good'},
	], rows, {copy: true}));
}
