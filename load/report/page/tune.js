/* SPDX-License-Identifier: Apache-2.0 */
/* How `penstock tune` found its settings. */

const tuneEnds = {
	clear: ['good', 'the winner is clear'],
	tied: ['good', 'the best cannot be told apart'],
	budget: ['warn', 'the budget ended first'],
	stopped: ['warn', 'interrupted'],
	all: ['', 'everything was measured'],
};

/* How far each configuration that stayed in the race is behind, with its interval. */
function behindChart(rows) {
	const percent = (x) => Math.exp(x) - 1;
	return {
		type: 'bar',
		title: 'How far configurations are behind the leader',
		data: {
			labels: rows.map((c) => c.name),
			datasets: [{
				label: 'behind',
				data: rows.map((c) => c.behind),
				whiskers: rows.map((c) => c.behind_margin === null ? null
					: [percent(Math.log1p(c.behind) - c.behind_margin), percent(Math.log1p(c.behind) + c.behind_margin)]),
				backgroundColor: rows.map((c) => fade(cssVariable(c.winner ? '--good' : c.dropped_in_round === null ? '--c0' : '--soft'), 0.55)),
				maxBarThickness: 20,
			}],
		},
		options: {
			indexAxis: 'y',
			interaction: {mode: 'nearest', axis: 'y', intersect: false},
			plugins: {legend: {display: false}, tooltip: tooltip('percent')},
			scales: {x: axis('behind the leader, of those dropped the one of then; the winner is green', 'percent'), y: nameAxis()},
		},
		table: {head: ['configuration', 'behind'], rows: rows.map((c) => [c.name, formatValue('percent', c.behind)])},
	};
}

function importanceChart(t) {
	const most = Math.max(0.01, ...t.importance.map((i) => i.effect));
	return el('div', {}, el('h3', {}, 'What mattered'),
		el('table', {id: 'table-importance', class: 'effects'},
			el('thead', {}, el('tr', {}, ...['setting', 'best', 'effect', ''].map((h, i) => el('th', {scope: 'col', class: i < 2 ? 'text' : null}, h)))),
			el('tbody', {}, ...[...t.importance].sort((a, b) => b.effect - a.effect).map((i) => el('tr', {},
				el('th', {scope: 'row'}, spacedWords(i.name)),
				el('td', {class: 'text'}, setting(i.name, i.best)),
				el('td', {'data-value': i.effect}, formatValue('percent', i.effect) + (i.margin ? ' \u00b1 ' + formatValue('percent', i.margin) : '')),
				el('td', {class: 'bar'}, el('div', {class: 'meter'}, el('i', {style: `width: ${100 * i.effect / most}%`}))))))));
}

function addTune(r) {
	const t = r.tune;
	if (!t)
		return;
	const id = several ? r.index + 1 : '';
	const config = JSON.stringify(t.config, null, 3);
	const [kind, end] = tuneEnds[t.end] || ['', t.end];
	const rows = [...t.contenders].sort((a, b) => b.probes - a.probes || a.behind - b.behind).slice(0, 12)
		.map((c) => ({...c, winner: c.name === t.winner})).sort((a, b) => a.behind - b.behind);
	const s = section('tune' + id, (several ? r.label + ': ' : '') + 'Tuned settings', {class: 'full', nav: 'Tuned'},
		el('p', {class: 'lead'}, el('span', {class: 'badge ' + kind}, end), ' ' + t.verdict + '. Goal: ' + t.goal + '. ' +
			`${t.tried} of ${t.configurations} configurations in ${t.rounds} rounds, ${t.probes} probes, ${formatValue('time', t.spent_sec)}.`),
		el('div', {class: 'pair'},
			el('div', {}, el('h3', {}, 'For DeepSpeed and penstock'), el('pre', {class: 'config', tabindex: '0'}, config),
				copyButton('Copy', () => config + '\n')),
			importanceChart(t)));
	const entry = addChart(s, 'chart-behind' + id, () => behindChart(rows));
	entry.canvas.parentNode.style.height = Math.max(12, 4 + 2.4 * rows.length) + 'rem';
	s.append(dataTable('contenders' + id, [
		{head: 'configuration', value: (c) => c.name, kind: 'text'},
		{head: 'read', value: (c) => c.read_bytes_per_sec, kind: 'rate', group: 'result'},
		{head: 'write', value: (c) => c.write_bytes_per_sec, kind: 'rate', group: 'result'},
		{head: 'behind', value: (c) => c.behind, kind: 'percent', group: 'result'},
		{head: 'probes', value: (c) => c.probes, kind: 'count', group: 'result'},
		{head: 'left the race in round', value: (c) => c.dropped_in_round, kind: 'count', group: 'result'},
		...Object.keys(t.contenders[0].settings).map((name) => ({head: spacedWords(name), value: (c) => c.settings[name], show: (v) => setting(name, v), group: 'settings'})),
	], [...t.contenders].sort((a, b) => (b.name === t.winner) - (a.name === t.winner) || b.probes - a.probes || a.behind - b.behind), {copy: true}));
}
