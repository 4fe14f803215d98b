/* SPDX-License-Identifier: Apache-2.0 */
/* Two results side by side, as `penstock compare` judged them. */

const verdictKinds = {slower: 'bad', faster: 'good', mixed: 'warn', 'no difference seen': '', 'not comparable': 'warn'};

const compared = {
	median: {text: 'median latency', short: 'median', kind: 'time', slower: 'right of zero is slower'},
	bandwidth: {text: 'bandwidth', short: 'bandwidth', kind: 'rate', slower: 'left of zero is slower'},
	p99: {text: 'p99 latency', short: 'p99', kind: 'time', slower: 'right of zero is slower'},
};

/* Change of one figure in percent, with the interval. */
function changeChart(all, name) {
	const figure = compared[name];
	const rows = all.filter((r) => r[name].ratio !== null);
	const change = (x) => x === null ? null : x - 1;
	const ends = rows.flatMap((r) => r[name].interval || []).map((v) => (v - 1) * 1.1);
	const mark = (v) => v === 'slower' ? '--bad' : v === 'faster' ? '--good' : '--soft';
	return {
		type: 'bar',
		title: `Change of the ${figure.text} from ${page.compare.a.name} to ${page.compare.b.name}`,
		data: {
			labels: rows.map((r) => r.name),
			datasets: [{
				label: 'change',
				data: rows.map((r) => change(r[name].ratio)),
				whiskers: rows.map((r) => r[name].interval && r[name].interval.map(change)),
				backgroundColor: rows.map((r) => fade(cssVariable(mark(r[name].verdict)), 0.55)),
				maxBarThickness: 22,
			}],
		},
		options: {
			indexAxis: 'y',
			interaction: {mode: 'nearest', axis: 'y', intersect: false},
			plugins: {legend: {display: false}, tooltip: tooltip('percent')},
			scales: {
				x: axis(`change of the ${figure.text}; ${figure.slower}`, 'percent',
					{suggestedMin: Math.min(-0.02, ...ends), suggestedMax: Math.max(0.02, ...ends)}),
				y: nameAxis(),
			},
		},
		table: {
			head: ['series', 'change', 'from', 'to'],
			rows: rows.map((r) => [r.name, ...[r[name].ratio, ...(r[name].interval || [null, null])]
				.map((v) => formatValue('percent', change(v)))]),
		},
	};
}

function figureColumns(name) {
	const {short, kind} = compared[name];
	const ratio = (v) => v === null ? noValue : v.toFixed(3);
	const end = (i) => (r) => r[name].interval && r[name].interval[i];
	return [
		{head: short + ' of A', value: (r) => r[name].a, kind},
		{head: short + ' of B', value: (r) => r[name].b, kind},
		{head: 'B / A', value: (r) => r[name].ratio, show: ratio, title: short},
		{head: 'from', value: end(0), show: ratio, title: '95 % interval of ' + short},
		{head: 'to', value: end(1), show: ratio, title: '95 % interval of ' + short},
		{head: 'p', value: (r) => r[name].p, title: 'chance of such a difference of ' + short + ' without one',
			show: (v) => v === null ? noValue : v < 0.0001 ? '< 0.0001' : v.toFixed(4)},
	];
}

/* Which figures the verdict is about. */
function verdictText(r) {
	const of = Object.keys(compared).filter((name) => ['slower', 'faster'].includes(r[name].verdict));
	return r.verdict + (r.why ? ': ' + r.why : of.length && of.length < 3
		? ': ' + of.map((name) => name + (r.verdict === 'mixed' ? ' ' + r[name].verdict : '')).join(', ') : '');
}

function addGate(c) {
	const gate = c.gate;
	const kind = gate ? (gate.failed ? 'bad' : 'good') : c.slower || c.mixed ? 'bad' : c.faster ? 'good' : 'warn';
	addNote(kind, c.summary + (gate ? ` Gate ${gate.text}: ${gate.failed ? 'failed' : 'passed'}.` : ''));
	if (gate && gate.reasons.length)
		document.getElementById('main').lastChild.append(
			el('ul', {class: 'reasons'}, ...gate.reasons.map((text) => el('li', {}, text))));
	c.notes.forEach((text) => addNote('warn', text));
}

function addComparison() {
	const c = page.compare;
	if (!c)
		return;
	addGate(c);
	const s = section('comparison', `${c.a.name} and ${c.b.name}`, {class: 'full', nav: 'Comparison'},
		el('details', {class: 'lead'}, el('summary', {}, 'How a difference is told from chance'), c.method));
	const names = Object.keys(compared).filter((name) => c.rows.some((r) => r[name].ratio !== null));
	if (names.length) {
		let name = names[0];
		const entry = addChart(s, 'chart-change', () => changeChart(c.rows, name));
		const fit = () => {
			entry.canvas.parentNode.style.height =
				Math.max(12, 4 + 2.2 * c.rows.filter((r) => r[name].ratio !== null).length) + 'rem';
		};
		s.querySelector('.head').append(toggle('Which figure', names.map((n) => [n, compared[n].text]), name, (v) => {
			name = v;
			fit();
			redraw(entry);
		}));
		fit();
	}
	s.append(dataTable('compare', [
		{head: 'series', value: (r) => r.name, kind: 'text'},
		{head: 'verdict', value: (r) => r.verdict, kind: 'text', text: verdictText, badge: (r) => verdictKinds[r.verdict]},
		...Object.keys(compared).flatMap((name) => figureColumns(name).map((c) => ({...c, group: name}))),
		{head: 'CPU of A', value: (r) => valueAt(r, 'a.cpu_sec_per_gib'), kind: 'cpu', group: 'CPU'},
		{head: 'CPU of B', value: (r) => valueAt(r, 'b.cpu_sec_per_gib'), kind: 'cpu', group: 'CPU'},
	], c.rows, {copy: true}));
}
