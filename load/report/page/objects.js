/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to object stores: how they went, what was tried again and why, and how each endpoint did. */

const objectResults = results.filter((r) => r.objects);

function addObjects() {
	if (!objectResults.length)
		return;
	const ofResult = several ? [{head: 'of', value: (r) => r.label, kind: 'text'}] : [];
	const count = (head, name, title) => ({head, value: (r) => valueAt(r, 'objects.' + name), kind: 'count', title});
	const time = (head, name, level) => ({head, value: (r) => r.objects[name] ? r.objects[name][level] : null, kind: 'time'});
	const endpoints = objectResults.flatMap((r) => r.objects.endpoints.map((e) => ({...e, label: r.label, name: e.url})));
	section('objects', 'Requests to the object store', {class: 'full', nav: 'Objects'}, dataTable('objects', [
		...ofResult,
		count('requests', 'requests'), count('failed', 'failed', 'in the end'), count('found nothing', 'absent', 'asked whether something is there, and it was not'),
		count('tried again', 'retries'), count('429 or 503', 'throttled'), count('timeouts', 'timeouts'), count('broken', 'broken', 'connections'),
		time('first byte, p50', 'first_byte', 'p50'), time('p99', 'first_byte', 'p99'), time('last byte, p50', 'last_byte', 'p50'), time('p99', 'last_byte', 'p99'),
		time('put, p50', 'put', 'p50'), time('p99', 'put', 'p99'),
	], objectResults, {copy: true}), dataTable('endpoints', [
		{head: 'endpoint', value: (e) => e.url, kind: 'text'},
		...ofResult,
		{head: 'attempts', value: (e) => e.attempts, kind: 'count'}, {head: 'failed', value: (e) => e.failed, kind: 'count'},
		{head: 'left out', value: (e) => e.left_out, kind: 'count', title: 'how often'}, {head: 'read', value: (e) => e.read_bytes, kind: 'size'},
		{head: 'written', value: (e) => e.written_bytes, kind: 'size'}, {head: 'at the end', value: (e) => e.up ? 'up' : 'left out', kind: 'text'},
	], endpoints, {copy: true}));
	for (const r of objectResults)
		if (r.objects.failed)
			addNote('bad', `${several ? r.label + ': ' : ''}${r.objects.failed} of ${r.objects.requests} requests to the object store failed.`);
}
