/* SPDX-License-Identifier: Apache-2.0 */
/* Two results side by side, as `sluice compare` judged them. */

const judged = {slower: 'bad', faster: 'good', 'no difference seen': '', 'not comparable': 'warn'};

/* Change of the latency in percent, with the interval; right of zero is slower. */
function changeChart(rows) {
	const change = (x) => x === null ? null : x - 1;
	return {
		type: 'bar',
		title: 'Change of the median latency from ' + page.compare.a.name + ' to ' + page.compare.b.name,
		data: {
			labels: rows.map((r) => r.name),
			datasets: [{
				label: 'change',
				data: rows.map((r) => change(r.ratio)),
				whiskers: rows.map((r) => r.ratio === null || r.interval === null ? null : r.interval.map(change)),
				backgroundColor: rows.map((r) => faint(css(r.verdict === 'slower' ? '--bad' : r.verdict === 'faster' ? '--good' : '--soft'), 0.55)),
				maxBarThickness: 22,
			}],
		},
		options: {
			indexAxis: 'y',
			interaction: {mode: 'nearest', axis: 'y', intersect: false},
			plugins: {legend: {display: false}, tooltip: tip('percent')},
			scales: {
				x: axis('change of the median latency; right of zero is slower', 'percent', {
					suggestedMin: Math.min(-0.02, ...rows.flatMap((r) => r.interval || []).map((v) => (v - 1) * 1.1)),
					suggestedMax: Math.max(0.02, ...rows.flatMap((r) => r.interval || []).map((v) => (v - 1) * 1.1)),
				}),
				y: axis('', null, {grid: {display: false}}),
			},
		},
		table: {
			head: ['series', 'change', 'from', 'to'],
			rows: rows.map((r) => [r.name, show('percent', change(r.ratio)), ...(r.interval || [null, null]).map((v) => show('percent', v === null ? null : v - 1))]),
		},
	};
}

function addComparison() {
	const c = page.compare;
	if (!c)
		return;
	const gate = c.gate;
	note(gate ? (gate.failed ? 'bad' : 'good') : c.slower ? 'bad' : c.faster ? 'good' : 'warn',
		c.summary + (gate ? ` Gate ${gate.text}: ${gate.failed ? 'failed' : 'passed'}.` : ''));
	c.notes.forEach((text) => note('warn', text));
	const s = section('comparison', `${c.a.name} and ${c.b.name}`, {class: 'full', nav: 'Comparison'},
		el('p', {class: 'lead'}, c.method));
	const rows = c.rows.filter((r) => r.ratio !== null);
	if (rows.length) {
		const entry = addChart(s, 'chart-change', () => changeChart(rows));
		entry.canvas.parentNode.style.height = Math.max(12, 4 + 2.2 * rows.length) + 'rem';
	}
	s.append(dataTable('compare', [
		{head: 'series', value: (r) => r.name, kind: 'text'},
		{head: 'verdict', value: (r) => r.verdict, kind: 'text', badge: (r) => judged[r.verdict]},
		{head: 'median of A', value: (r) => at(r, 'a.median'), kind: 'time'},
		{head: 'median of B', value: (r) => at(r, 'b.median'), kind: 'time'},
		{head: 'B / A', value: (r) => r.ratio, show: (v) => v === null ? missing : v.toFixed(3)},
		{head: 'from', value: (r) => r.interval && r.interval[0], show: (v) => v === null ? missing : v.toFixed(3), title: '95 % interval'},
		{head: 'to', value: (r) => r.interval && r.interval[1], show: (v) => v === null ? missing : v.toFixed(3), title: '95 % interval'},
		{head: 'p', value: (r) => r.p, show: (v) => v === null ? missing : v < 0.0001 ? '< 0.0001' : v.toFixed(4)},
		{head: 'p99 of A', value: (r) => r.a.p99, kind: 'time'},
		{head: 'p99 of B', value: (r) => r.b.p99, kind: 'time'},
		{head: 'bandwidth of A', value: (r) => at(r, 'a.bytes_per_sec'), kind: 'rate'},
		{head: 'bandwidth of B', value: (r) => at(r, 'b.bytes_per_sec'), kind: 'rate'},
		{head: 'CPU of A', value: (r) => at(r, 'a.cpu_sec_per_gib'), kind: 'cpu'},
		{head: 'CPU of B', value: (r) => at(r, 'b.cpu_sec_per_gib'), kind: 'cpu'},
	], c.rows, {copy: true}));
}
