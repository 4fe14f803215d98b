/* SPDX-License-Identifier: Apache-2.0 */
/* Replays of traces: whether they kept up, what was there, and how the run went. */

const replayResults = results.filter((r) => r.replay);

/* What must be known first. */
function addReplayNotes(r) {
	const p = r.replay, e = p.errors, head = several ? r.label + ': ' : '';
	if (e.reads || e.writes || e.deletes)
		addNote('bad', `${head}${e.reads} reads, ${e.writes} writes and ${e.deletes} deletions failed, ${e.verify} reads were not what was written: ${e.first}`);
	if (p.lag && p.lag.overloaded)
		addNote('warn', `${head}Overloaded: the replay fell behind by ${formatDigits(p.lag.slope)} s in each second of the trace, in the end by ${formatValue('time', p.lag.last)}.`);
	if (p.cache.created.ops && !r.store)
		addNote('warn', `${head}${formatValue('count', p.cache.created.ops)} objects were made on the way to their first read; --prefill makes them beforehand.`);
}

const replayTimes = {
	bandwidth: {text: 'bandwidth', kind: 'rate', lines: (s) => [['read', '--r0', ratioColumn(s, 'read_bytes', 'span')],
		['written', '--w0', ratioColumn(s, 'write_bytes', 'span')]], from: 0},
	operations: {text: 'operations', kind: 'count', lines: (s) => [['reads per second', '--r0', ratioColumn(s, 'read_ops', 'span')],
		['writes per second', '--w0', ratioColumn(s, 'write_ops', 'span')], ['in flight', '--c7', plainColumn(s, 'in_flight')]], from: 0},
	lag: {text: 'lag', kind: 'time', lines: (s) => [['mean', '--c1', plainColumn(s, 'lag_mean')], ['largest', '--c4', plainColumn(s, 'lag_max')]], from: 0},
	hits: {text: 'reads of what was there', kind: 'percent', lines: (s) => [['share', '--c2',
		s.t.map((t, i) => ({x: t, y: s.hits[i] + s.misses[i] ? s.hits[i] / (s.hits[i] + s.misses[i]) : null}))]], from: 0, to: 1},
};

function addReplayTime() {
	if (!replayResults.some((r) => r.replay.seconds.t.length > 1))
		return;
	let mode = replayResults.some((r) => r.replay.lag && r.replay.lag.overloaded) ? 'lag' : 'bandwidth';
	const s = section('replaytime', 'The replay over time', {class: 'full', nav: 'Replay'});
	s.querySelector('.head').append(dropdown('', Object.entries(replayTimes).map(([m, o]) => [m, o.text]), mode, (v) => {
		mode = v;
		redraw(entry);
	}));
	const entry = addChart(s, 'chart-replay-time', () => secondsChart(replayTimes[mode], replayResults, (r) => r.replay.seconds), true);
}

function addReplayClasses() {
	const rows = replayResults.flatMap((r) => r.replay.classes.map((c) => ({...c, ...c.latency,
		label: [several ? r.label + ':' : '', c.operation, c.tier, c.phase, c.size].filter((x) => x).join(' '), rate: c.bytes / (r.replay.elapsed_sec || 1)})));
	if (!rows.length)
		return;
	section('replayclasses', 'By operation, tier, phase and size', {class: 'full', nav: 'Operations'}, dataTable('replay-classes', [
		{head: 'of', value: (x) => x.label, kind: 'text'}, {head: 'number', value: (x) => x.ops, kind: 'count'},
		{head: 'errors', value: (x) => x.errors, kind: 'count'}, {head: 'bandwidth', value: (x) => x.rate, kind: 'rate'},
		...kvLevels.map((p) => ({head: p, value: (x) => x[p], kind: 'time'})),
	], rows, {copy: true}));
}
