/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that can be sorted and copied; machine and settings. */

/*
 * columns: {head, value(row), kind, formatValue(v) or text(row), title}.  The first column names the row.
 * Each cell keeps the value as it is in the JSON in data-value.  Of columns with a group those of one
 * group are shown at a time.
 */
function dataTable(id, columns, rows, more) {
	const body = el('tbody', {});
	const head = el('tr', {});
	const textOf = (c, v) => c.show ? c.show(v) : formatValue(c.kind, v);
	const groups = [...new Set(columns.map((c) => c.group).filter((g) => g))];
	let group = groups[0];
	const hide = (c) => Boolean(c.group && group !== 'all' && c.group !== group);
	const cell = (c, row, first) => {
		const v = c.value(row);
		const said = c.text ? c.text(row) : textOf(c, v);
		const text = c.badge ? el('span', {class: 'badge ' + c.badge(row)}, said) : said;
		return el(first ? 'th' : 'td', {scope: first ? 'row' : null, hidden: hide(c), class: c.kind === 'text' ? 'text' : null,
			'data-value': v === null || v === undefined ? null : v}, text);
	};
	const fill = () => body.replaceChildren(...rows.map((row) =>
		el('tr', {'data-row': row.label || row.name || null}, ...columns.map((c, i) => cell(c, row, i === 0)))));
	const sort = (c, th) => {
		const down = th.getAttribute('aria-sort') !== 'descending';
		const sign = down ? -1 : 1;
		for (const other of head.children)
			other.removeAttribute('aria-sort');
		th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
		rows = [...rows].sort((a, b) => {
			const [x, y] = [c.value(a), c.value(b)];
			if (x === null || y === null)
				return (x === null) - (y === null);
			return sign * (typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y), 'en', {numeric: true}));
		});
		fill();
	};
	for (const c of columns) {
		const th = el('th', {scope: 'col', title: c.title, class: c.kind === 'text' ? 'text' : null});
		th.append(el('button', {type: 'button', onclick: () => sort(c, th)}, c.head));
		th.hidden = hide(c);
		head.append(th);
	}
	fill();
	const table = el('table', {id: 'table-' + id}, el('thead', {}, head), body);
	const box = el('div', {class: 'scroll' + (rows.length > 40 ? ' limited' : ''), tabindex: '0', role: 'region', 'aria-label': 'Table'}, table);
	if (!more || !more.copy)
		return box;
	const controls = copyButtons(columns, () => rows, textOf);
	/* All columns of a wide table at once are wider than most screens. */
	if (groups.length)
		controls.append(toggle('Columns', [...groups, 'all'].map((g) => [g, g]), group, (g) => {
			group = g;
			columns.forEach((c, i) => {
				head.children[i].hidden = hide(c);
			});
			fill();
		}));
	return el('div', {}, controls, box);
}

/* ------------------------------------------------------------------- copy */

async function toClipboard(text) {
	try {
		await navigator.clipboard.writeText(text);
	} catch (e) {
		/* A page from a file is not everywhere trusted with the clipboard. */
		const area = el('textarea', {class: 'hidden'});
		area.value = text;
		document.body.append(area);
		area.select();
		const done = document.execCommand('copy');
		area.remove();
		if (!done)
			throw e;
	}
}

function copyButton(text, what) {
	const button = el('button', {type: 'button', onclick: async () => {
		let said = 'Copied';
		try {
			await toClipboard(what());
		} catch (e) {
			said = 'The browser does not allow it';
		}
		button.textContent = said;
		announce(said);
		setTimeout(() => {
			button.textContent = text;
		}, 1500);
	}}, text);
	return button;
}

/* For spreadsheets the values as they are in the JSON, for text what the page shows. */
function copyButtons(columns, rows, textOf) {
	/* What a spreadsheet would take for a formula becomes text there. */
	const plainCell = (v) => typeof v === 'string' && /^[=+@-]/.test(v) ? "'" + v : v;
	const tsv = () => [columns.map((c) => c.head), ...rows().map((r) => columns.map((c) => plainCell(c.value(r) ?? '')))]
		.map((line) => line.join('\t')).join('\n') + '\n';
	const markdown = () => [
		columns.map((c) => c.head),
		columns.map((c) => c.kind === 'text' ? '---' : '---:'),
		...rows().map((r) => columns.map((c) => textOf(c, c.value(r)).replace(/\|/g, '\\|'))),
	].map((line) => '| ' + line.join(' | ') + ' |').join('\n') + '\n';
	return el('div', {class: 'controls'}, copyButton('Copy for a spreadsheet', tsv), copyButton('Copy as Markdown', markdown));
}

/* ----------------------------------------------------------- all numbers */

const columns = [
	{head: 'series', value: (s) => s.label, kind: 'text'},
	...Object.entries({
		speed: [
			{head: 'operations', path: 'ops', kind: 'count'},
			{head: 'bandwidth', path: 'bytes_per_sec', kind: 'rate', title: 'bytes over seconds of the whole series'},
			{head: 'of the limit', path: 'limit.share', kind: 'percent'},
			{head: 'mean bandwidth', path: 'bandwidth.mean', kind: 'rate', title: 'mean of bytes over latency of each operation'},
			{head: 'CPU', path: 'cpu.sec_per_gib', kind: 'cpu'},
			{head: 'written', path: 'bytes_written', kind: 'size'},
		],
		latency: [
			{head: 'mean latency', path: 'latency.mean', kind: 'time'},
			{head: 'from', path: 'latency.ci95.0', kind: 'time', title: '95 % interval of the mean latency (Student\'s t)'},
			{head: 'to', path: 'latency.ci95.1', kind: 'time', title: '95 % interval of the mean latency (Student\'s t)'},
			{head: 'std dev', path: 'latency.stddev', kind: 'time'},
			{head: 'min', path: 'latency.min', kind: 'time'},
			{head: 'max', path: 'latency.max', kind: 'time'},
		],
		percentiles: [
			{head: 'median', path: 'latency.median', kind: 'time'},
			...['p90', 'p99', 'p99.9', 'p99.99'].map((p) => ({head: p, path: 'latency.' + p, kind: 'time'})),
		],
		'what ran': [
			{head: 'page cache', path: 'cache', kind: 'text'},
			{head: 'engine', path: 'ran.engine', kind: 'text'},
			{head: 'way', path: 'ran.direct', kind: 'text'},
			{head: 'memory', path: 'ran.path', kind: 'text'},
		],
	}).flatMap(([group, list]) => list.map((c) => ({...c, group}))),
].map((c) => ({...c, value: c.value || ((s) => valueAt(s, c.path))}));

function addTable() {
	if (!series.length)
		return;
	section('numbers', 'All numbers', {class: 'full'}, dataTable('series', columns, series, {copy: true}));
}

/* ---------------------------------------------------- machine and settings */

function factTable(title, pairs) {
	return el('div', {}, el('h3', {}, title), el('dl', {}, ...pairs.filter(([, v]) => v !== null && v !== undefined && v !== '')
		.flatMap(([name, v]) => [el('dt', {}, name), el('dd', {}, v)])));
}

function machineFacts(r) {
	const m = r.machine;
	return factTable('Machine', [
		['kernel', m.kernel],
		['processor', m.cpu],
		['processors', m.cpus && String(m.cpus)],
		['memory', m.memory_bytes && formatValue('size', m.memory_bytes)],
		['GPU', m.gpu || (m.kernel ? 'none' : null)],
	]);
}

function targetFacts(t) {
	const d = t.block_device;
	return factTable('Storage', [
		['folder', t.folder],
		['file system', t.file_system],
		['mounted at', t.mount],
		['device', d && d.name],
		['model', d && d.model],
		['turns', d && d.model ? (d.rotational ? 'yes' : 'no') : null], /* virtual disks do not know */
		['O_DIRECT', t.direct ? 'works' : 'no: ' + (t.direct_why_not || 'not known why')],
	]);
}

function ranFacts(r) {
	const one = (f) => [...new Set(r.series.map(f))].join('; ');
	return factTable('What ran', [
		['command', r.command_line.join(' ')],
		['started', r.time.replace('T', ' ').replace('Z', ' UTC')],
		['penstock', r.penstock],
		['engine', one((s) => s.ran.engine)],
		['page cache', one((s) => s.cache)],
		['memory', one((s) => s.ran.memory + (s.ran.huge_pages ? ', huge pages' : '') + (s.ran.registered ? ', registered' : ''))],
		['fallbacks', one((s) => s.ran.fallbacks.join(', ') + (s.ran.fallback_why ? ` (${s.ran.fallback_why})` : '')) || 'none'],
		['device limit', one((s) => s.limit.how)],
		['verified', r.series.some((s) => s.verified_bytes !== null)
			? formatValue('size', r.series.reduce((n, s) => n + (s.verified_bytes || 0), 0)) + ', all right' : 'not asked for'],
	]);
}

function addFacts() {
	if (!results.length)
		return;
	const s = section('machine', 'Machine and settings', {class: 'full'});
	for (const r of results)
		s.append(el('div', {class: 'result'}, several ? el('h3', {}, r.label) : null,
			el('div', {class: 'facts'}, machineFacts(r), ...r.targets.map(targetFacts), ranFacts(r),
				factTable('Settings', Object.entries(r.settings).map(([name, v]) => [spacedWords(name), setting(name, v)])))));
}
