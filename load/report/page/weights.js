/* SPDX-License-Identifier: Apache-2.0 */
/* Streamed weights: the bound and what was reached, where time was lost, what others would give. */

const weightsResults = results.filter((r) => r.weights);

function addWeights(r) {
	const s = r.weights, head = several ? r.label + ': ' : '', stall = s.stall;
	const rows = [
		{what: 'bound', tokens: s.bound_tokens_per_sec, share: s.bound_tokens_per_sec === null ? null : 1},
		{what: 'measured', tokens: s.tokens_per_sec, share: s.bound_tokens_per_sec ? s.tokens_per_sec / s.bound_tokens_per_sec : null},
	];
	const batches = [...new Set(s.others.map((o) => o.batch))];
	const tokensFor = (batch, drives, share) => s.others.find((o) => o.batch === batch && o.drives === drives && o.bytes_share === share).tokens_per_sec;
	section('weights', `${head}Weights of ${s.model}: ${formatValue('size', s.model_bytes)}`, {class: 'full', nav: 'Weights'},
		el('p', {class: 'lead'}, `No model was run: ${s.groups} groups pass through a window of ${formatValue('size', s.window)}, each held for ${s.compute_ms} ms. ` +
			(s.synthetic ? `Blocks of a file of ${formatValue('size', s.file_bytes)} were read again and again in place of the model. ` : '') +
			`The caller waited ${formatValue('time', stall.disk_sec)} for the disk and ${formatValue('time', stall.copy_sec)} for copies; the disk was idle for ` +
			`${formatValue('time', stall.caller_sec)} because the window was held.`),
		dataTable('weights-bound', [
			{head: `batch ${s.batch}`, value: (x) => x.what, kind: 'text'}, {head: 'tokens/s', value: (x) => x.tokens, kind: 'count'},
			{head: 'of the bound', value: (x) => x.share, kind: 'percent'},
		], rows, {copy: true}),
		batches.length ? dataTable('weights-others', [
			{head: 'tokens/s at most, batch', value: (b) => b, kind: 'count'}, {head: 'this drive', value: (b) => tokensFor(b, 1, 1), kind: 'count'},
			{head: '2 drives', value: (b) => tokensFor(b, 2, 1), kind: 'count'}, {head: '4 drives', value: (b) => tokensFor(b, 4, 1), kind: 'count'},
			{head: 'half the bits', value: (b) => tokensFor(b, 1, 0.5), kind: 'count'}, {head: 'a quarter', value: (b) => tokensFor(b, 1, 0.25), kind: 'count'},
		], batches, {copy: true}) : '');
}
