/* SPDX-License-Identifier: Apache-2.0 */
/* How a chart looks and is used: colours of the theme, whiskers, lines, keyboard. */

const charts = []; /* {chart, build}: rebuilt when the colours change */

function cssVariable(name) {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/*
 * Reads are cold colours and writes are warm ones, in every chart.  Where there are several
 * of a kind, be it sizes or results, the number @n tells them apart.
 */
function kindVariable(s, n) {
	return (s.kind === 'read' ? '--r' : '--w') + n % 5;
}

function kindColour(s) {
	return cssVariable(kindVariable(s, s.result.index));
}

function fade(c, amount) {
	return c + Math.round(amount * 255).toString(16).padStart(2, '0');
}

/* ----------------------------------------------------------------- plugins */

/* Intervals at bars: dataset.whiskers[i] = [low, high] or null. */
const whiskers = {
	id: 'whiskers',
	afterDatasetsDraw(chart) {
		const c = chart.ctx;
		c.save();
		c.strokeStyle = cssVariable('--text');
		c.lineWidth = 1.5;
		c.beginPath();
		c.rect(chart.chartArea.left, chart.chartArea.top, chart.chartArea.width, chart.chartArea.height);
		c.clip();
		chart.data.datasets.forEach((d, n) => {
			if (!d.whiskers || !chart.isDatasetVisible(n))
				return;
			const flat = chart.options.indexAxis === 'y';
			const scale = chart.scales[flat ? 'x' : 'y'];
			chart.getDatasetMeta(n).data.forEach((bar, i) => {
				if (d.whiskers[i])
					drawWhisker(c, flat, flat ? bar.y : bar.x,
						...d.whiskers[i].map((v) => scale.getPixelForValue(v)));
			});
		});
		c.restore();
	},
};

function drawWhisker(c, flat, across, from, to) {
	const line = (x1, y1, x2, y2) => flat ? (c.moveTo(y1, x1), c.lineTo(y2, x2))
		: (c.moveTo(x1, y1), c.lineTo(x2, y2));
	c.beginPath();
	line(across, from, across, to);
	line(across - 5, from, across + 5, from);
	line(across - 5, to, across + 5, to);
	c.stroke();
}

/* Lines across the chart: options.plugins.marks.list = [{value, text, colour}]. */
const marks = {
	id: 'marks',
	afterDatasetsDraw(chart, args, options) {
		const {ctx: c, chartArea: area, scales: {x}} = chart;
		c.save();
		c.font = '11px system-ui, sans-serif';
		(options.list || []).forEach((m, i) => {
			const px = x.getPixelForValue(m.value);
			if (px < area.left || px > area.right)
				return;
			c.strokeStyle = c.fillStyle = m.colour;
			c.setLineDash([4, 4]);
			c.beginPath();
			c.moveTo(px, area.top);
			c.lineTo(px, area.bottom);
			c.stroke();
			c.textAlign = px > area.right - 40 ? 'right' : 'left';
			c.fillText(m.text, px + (c.textAlign === 'left' ? 4 : -4), area.top + 11 + 12 * (i % 4));
		});
		c.restore();
	},
};

Chart.register(whiskers, marks);

/* ------------------------------------------------------------------- charts */

/*
 * A chart in a section.  build() returns Chart.js' configuration in the colours
 * of now, with title (for those who do not see it) and table ({head, rows}).
 */
function addChart(parent, id, build, tall) {
	const canvas = el('canvas', {id, tabindex: '0', role: 'img'});
	const table = el('details', {class: 'data'}, el('summary', {}, 'The same as numbers'));
	const entry = {build, canvas, table, chart: null, key: null};
	parent.append(el('div', {class: 'chart' + (tall ? ' tall' : '')}, canvas), table);
	canvas.addEventListener('keydown', (event) => moveFocus(entry, event));
	table.addEventListener('toggle', () => fillTable(entry));
	charts.push(entry);
	redraw(entry);
	return entry;
}

function redraw(entry) {
	const config = entry.build();
	const o = config.options = config.options || {};
	entry.config = config;
	entry.at = -1;
	o.maintainAspectRatio = false;
	o.animation = false;
	o.plugins = {legend: {position: 'bottom', labels: {usePointStyle: true, boxHeight: 8, padding: 12}}, ...o.plugins};
	o.interaction = o.interaction || {mode: 'nearest', intersect: false};
	entry.canvas.setAttribute('aria-label', config.title +
		'. Left and right keys step through the points; the same numbers are in the table below.');
	if (entry.chart)
		entry.chart.destroy();
	entry.chart = new Chart(entry.canvas, config);
	fillTable(entry);
}

function fillTable(entry) {
	const old = entry.table.querySelector('.scroll');
	if (old)
		old.remove();
	if (!entry.table.open || !entry.config.table)
		return;
	const {head, rows} = entry.config.table;
	entry.table.append(el('div', {class: 'scroll limited', tabindex: '0', role: 'region', 'aria-label': 'Table of the chart'},
		el('table', {}, el('thead', {}, el('tr', {}, ...head.map((h) => el('th', {scope: 'col'}, h)))),
			el('tbody', {}, ...rows.map((r) => el('tr', {}, el('th', {scope: 'row'}, r[0]),
				...r.slice(1).map((v) => el('td', {}, v))))))));
}

/* Left and right through all points of all visible datasets, telling each. */
function moveFocus(entry, event) {
	const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity}[event.key];
	const chart = entry.chart;
	const points = chart.data.datasets.flatMap((d, datasetIndex) =>
		!chart.isDatasetVisible(datasetIndex) || d.quiet ? []
			: d.data.map((v, index) => ({datasetIndex, index})));
	if (!step || !points.length)
		return;
	event.preventDefault();
	entry.at = Math.min(points.length - 1, Math.max(0, entry.at + step));
	const point = points[entry.at];
	const {x, y} = chart.getDatasetMeta(point.datasetIndex).data[point.index];
	chart.setActiveElements([point]);
	chart.tooltip.setActiveElements([point], {x, y});
	chart.update('none');
	announce([...chart.tooltip.title, ...chart.tooltip.body.flatMap((b) => b.lines)].join(', '));
}

/* ------------------------------------------------------------------- axes */

function axis(title, kind, more) {
	return {
		title: {display: Boolean(title), text: title},
		grid: {color: cssVariable('--line'), borderColor: cssVariable('--line')},
		ticks: kind ? {callback: (v) => formatTick(kind, v), maxTicksLimit: 8} : {},
		...more,
	};
}

/*
 * Names beside bars.  Long ones are cut in two lines, or more on a phone, and begin where the
 * room begins: what they differ in is at their end.
 */
function nameAxis() {
	const narrow = innerWidth < 700;
	const room = narrow ? 18 : 40;
	const parts = (text) => {
		const lines = [''];
		for (const word of text.split(/(?<=[_\s])/)) {
			if (lines[lines.length - 1] && (lines[lines.length - 1] + word).length > room)
				lines.push('');
			lines[lines.length - 1] += word;
		}
		return lines;
	};
	return axis('', null, {
		grid: {display: false},
		ticks: {
			autoSkip: false,
			font: {size: narrow ? 10 : 12},
			callback(value) {
				return parts(this.getLabelForValue(value));
			},
		},
	});
}

/* Logarithmic: a tick at 1, 2 and 5 of every decade, of many decades at 1. */
function logAxis(title, kind, more) {
	return axis(title, kind, {
		type: 'logarithmic',
		afterBuildTicks: (scale) => {
			const decades = Math.log10(scale.max / scale.min);
			const leading = decades > 4 ? [1] : decades > 1.2 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
			scale.ticks = [];
			for (let e = Math.floor(Math.log10(scale.min)); e <= Math.ceil(Math.log10(scale.max)); e++)
				for (const l of leading)
					if (l * 10 ** e >= scale.min * 0.999 && l * 10 ** e <= scale.max * 1.001)
						scale.ticks.push({value: l * 10 ** e});
		},
		ticks: {callback: (v) => formatTick(kind, v), autoSkip: true, autoSkipPadding: 14, maxRotation: 0},
		...more,
	});
}

/* Bounds of a logarithmic axis with a little air; by itself it would begin at a power of ten. */
function axisBounds(values) {
	const known = values.filter((v) => v > 0);
	if (!known.length)
		return {};
	const air = Math.max(1.05, Math.pow(Math.max(...known) / Math.min(...known), 0.04));
	return {min: Math.min(...known) / air, max: Math.max(...known) * air};
}

function tooltip(kind, more) {
	return {callbacks: {label: (i) => ' ' + i.dataset.label + ': ' +
		formatValue(kind, i.chart.options.indexAxis === 'y' ? i.parsed.x : i.parsed.y) +
		(i.dataset.whiskers && i.dataset.whiskers[i.dataIndex]
			? ' (' + i.dataset.whiskers[i.dataIndex].map((v) => formatValue(kind, v)).join(' \u2026 ') + ')' : ''), ...more}};
}

/* ------------------------------------------------------------------- theme */

const themes = ['auto', 'light', 'dark'];
let theme = 'auto';
const systemDark = matchMedia('(prefers-color-scheme: dark)');

function applyTheme() {
	const dark = theme === 'dark' || (theme === 'auto' && systemDark.matches);
	const button = document.getElementById('theme');
	document.documentElement.classList.toggle('dark', dark);
	button.textContent = {auto: 'Auto', light: 'Light', dark: 'Dark'}[theme];
	button.setAttribute('aria-label', 'Colours: ' +
		{auto: 'as the system has them', light: 'light', dark: 'dark'}[theme] + '; press to change');
	Chart.defaults.color = cssVariable('--soft');
	Chart.defaults.borderColor = cssVariable('--line');
	Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
	charts.forEach(redraw);
	document.dispatchEvent(new Event('themed'));
}

document.getElementById('theme').addEventListener('click', () => {
	theme = themes[(themes.indexOf(theme) + 1) % themes.length];
	applyTheme();
});
systemDark.addEventListener('change', applyTheme);
