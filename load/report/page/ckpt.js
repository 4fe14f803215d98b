/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: the methods side by side, ours and the reference's figures. */

const ckptResults = results.filter((r) => r.ckpt);

function addCheckpoints(r) {
	const c = r.ckpt, head = several ? r.label + ': ' : '';
	for (const m of c.methods.filter((x) => x.why_not))
		addNote('warn', `${head}Method ${m.name} was left out: ${m.why_not}`);
	const rows = c.methods.flatMap((m) => [m.save, m.load]).filter((w) => w)
		.map((w) => ({...w, limit: (r.series.find((s) => s.name === w.series) || {limit: {share: null}}).limit.share}));
	if (!rows.length)
		return;
	section('checkpoints', `${head}Checkpoints of ${formatValue('size', c.checkpoint_bytes)}: ${c.processes} processes`, {class: 'full', nav: 'Checkpoints'},
		el('p', {class: 'lead'}, 'Bandwidth is that of all processes from their common beginning to the last end. Time and throughput of the slowest process are ' +
			'MLPerf Storage’s figures. Content is made while a checkpoint is saved (streaming) or before (memory, torch).'),
		dataTable('ckpt-methods', [
			{head: 'of', value: (x) => x.series, kind: 'text'}, {head: 'number', value: (x) => x.operations, kind: 'count'},
			{head: 'bandwidth', value: (x) => x.bytes_per_sec, kind: 'rate'}, {head: 'of the limit', value: (x) => x.limit, kind: 'percent'},
			{head: 'slowest process', value: (x) => x.reference.duration_sec, kind: 'time'},
			{head: 'its throughput', value: (x) => x.reference.throughput, kind: 'rate'},
			{head: 'content', value: (x) => x.generation && x.generation.share, kind: 'percent'},
			{head: 'made durable', value: (x) => x.close_sec, kind: 'time'}, {head: 'bottleneck', value: (x) => x.bottleneck || '', kind: 'text'},
		], rows, {copy: true}));
}
