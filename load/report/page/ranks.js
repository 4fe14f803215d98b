/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes as one result: what each of them did, what the slowest cost, and how far their clocks are known. */

function rankNotes(r, head) {
	for (const m of r.ranks.members.filter((x) => x.lost))
		addNote('bad', `${head}${m.name} is lost: ${m.lost}.`);
	for (const s of r.ranks.series.filter((x) => x.skewed))
		addNote('warn', `${head}${s.name}: ranks began ${formatValue('time', s.skew_sec)} apart, more than 1 % of the run.`);
	for (const s of r.series)
		for (const key of ['engine', 'path', 'memory'].filter((x) => String(s.ran[x]).startsWith('differs: ')))
			addNote('warn', `${head}${s.name}: ${key} ${s.ran[key]}.`);
}

const interval95 = (kind, ci) => ci ? `${formatValue(kind, ci[0])} to ${formatValue(kind, ci[1])}` : noValue;

/* A line for each series: all together, and what the slowest cost. */
function rankSeries(r) {
	const name = (s) => s.slowest < 0 ? '' : s.rows[s.slowest].name;
	return dataTable(`ranks-series-${r.index}`, [
		{head: 'series', value: (s) => s.name, kind: 'text'}, {head: 'together', value: (s) => s.bytes_per_sec, kind: 'rate'},
		{head: 'by themselves', value: (s) => s.sum_bytes_per_sec, kind: 'rate', title: 'the rates of all ranks added up'},
		{head: 'the slowest cost', value: (s) => s.straggler_cost, kind: 'percent'}, {head: 'slowest', value: name, kind: 'text'},
		{head: 'began apart', value: (s) => s.skew_sec, kind: 'time'},
		{head: 'rate, 95 %', title: 'of a rank', value: (s) => s.rate_ci95 && s.rate_ci95[0], text: (s) => interval95('rate', s.rate_ci95)},
		{head: 'latency, 95 %', title: 'the mean of a rank', value: (s) => s.latency_ci95 && s.latency_ci95[0], text: (s) => interval95('time', s.latency_ci95)},
	], r.ranks.series, {copy: true});
}

/* The slowest first; one that has nothing is the first to look at. */
function rankRows(r) {
	const rate = (row) => row.bytes_per_sec === null ? -1 : row.bytes_per_sec;
	const rows = r.ranks.series.flatMap((s) => [...s.rows].sort((a, b) => rate(a) - rate(b)).map((row) => ({...row, series: s.name})));
	return dataTable(`ranks-${r.index}`, [
		{head: 'rank', value: (x) => x.name, kind: 'text'}, {head: 'series', value: (x) => x.series, kind: 'text'},
		{head: 'rate', value: (x) => x.bytes_per_sec, kind: 'rate'}, {head: 'share', value: (x) => x.share, kind: 'percent'},
		{head: 'p50', value: (x) => x.p50, kind: 'time'}, {head: 'p99', value: (x) => x.p99, kind: 'time'},
		{head: 'first', value: (x) => x.first_done, kind: 'time', title: 'when its first operation ended'},
		{head: 'last', value: (x) => x.last_done, kind: 'time', title: 'when its last operation ended'},
		{head: 'idle tail', value: (x) => x.idle_tail, kind: 'time'},
	], rows, {copy: true});
}

function rankMembers(r) {
	const clock = (key, own) => (m) => m.clock ? m.clock[key] : m.wall_clock && own(m.wall_clock) !== undefined ? own(m.wall_clock) : null;
	return dataTable(`ranks-members-${r.index}`, [
		{head: 'rank', value: (m) => m.name, kind: 'text'}, {head: 'host', value: (m) => m.host || '', kind: 'text'},
		{head: 'clock', value: clock('offset_sec', (w) => w.ahead_sec), show: (v) => v === null ? noValue : (v < 0 ? '-' : '') + formatValue('time', Math.abs(v)),
			title: 'less that of rank 0, or ahead of others, as was said'},
		{head: 'within', value: clock('error_sec', (w) => w.synchronised ? w.max_error_sec : null), kind: 'time'},
		{head: 'ended', value: (m) => m.lost ? 'lost' : m.partial ? 'early' : 'well', kind: 'text'},
	], r.ranks.members, {copy: true});
}

function addRanks(r) {
	const head = several ? r.label + ': ' : '', nr = r.ranks.members.length;
	rankNotes(r, head);
	section(`ranks-${r.index}`, `${head}${nr} ranks`, {class: 'full', nav: 'Ranks'},
		el('p', {class: 'lead'}, 'Together is all bytes over the time from the first beginning to the last end; what the slowest cost is how much less that is than ' +
			'the ranks’ own rates added up. Times are since the first rank began.'),
		rankSeries(r), rankRows(r), rankMembers(r));
}
