#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages of `penstock report` and `penstock compare` in a browser: page.py PENSTOCK SHOTS

Screenshots of every kind of page, at desktop width and light, at phone width and dark, go to SHOTS.
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.join(HERE, '..')
sys.path.insert(1, HERE)

import copy
import json
import random
import subprocess
import tempfile

import browser as chromium
import tap

PENSTOCK, SHOTS = map(os.path.abspath, sys.argv[1:3])
folder = tempfile.TemporaryDirectory(prefix='penstock-page-')
PIXELS = '''
const c = arguments[0], data = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
const seen = new Set();
for (let i = 0; i < data.length; i += 4)
    if (data[i + 3]) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
return seen.size'''

CHARTS = subprocess.run([PENSTOCK, 'report', os.path.join(HERE, 'sample-bench.json'), '-o', '/dev/null'],
                        stderr=subprocess.DEVNULL).returncode != 3
pages = {}    # kind -> path
web = None    # the browser


def sample(name):
    with open(os.path.join(HERE, f'sample-{name}.json'), encoding='utf-8') as f:
        return json.load(f)


def save(name, result):
    path = os.path.join(folder.name, name)
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(result, f)
    return path


def penstock(*args, status=0):
    done = subprocess.run([PENSTOCK, *args], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    assert done.returncode == status, (args, done)
    return done.stdout


def page(kind):
    """The path of a page, made when it is first asked for."""
    if kind not in pages:
        pages[kind] = os.path.join(folder.name, kind + '.html')
        MAKERS[kind](pages[kind])
    return pages[kind]


def slower():
    """The bench sample, its reads of 8M a tenth slower."""
    result = sample('bench')
    draw = random.Random(5)
    for s in result['series']:
        factor = 1.1 if s['name'] == 'read 8M' else 1
        s['samples'] = [x * factor * draw.lognormvariate(0, 0.003) for x in s['samples']]
        s['latency']['median'] = sorted(s['samples'])[100]
        s['latency']['percentiles']['p99'] *= factor
        s['bytes_per_sec'] /= factor
    return result


def hostile():
    """Names that would be markup, script or the end of the data if one let them."""
    result = sample('bench')
    result['series'][0]['name'] = '</script><script>window.broken = 1</script><img src=x onerror="window.broken=2">'
    result['settings']['<b>bold</b>'] = '<!--<script>'
    result['machine']['cpu'] = '"\u2028</title>\' & more'
    result['series'][1]['name'] = 'abc\u202egpj\x1b[2J'
    result['partial'], result['partial_why'] = True, 'interrupted <i>here</i>'
    return result


def tiers():
    """A cache over three tiers, as kv results have it."""
    result = sample('bench')
    result['command'] = 'kv'
    result['flows'] = [{'from': 'GPU', 'to': 'host', 'bytes': 40 << 30, 'ops': 5120},
                       {'from': 'host', 'to': 'NVMe', 'bytes': 22 << 30, 'ops': 2816},
                       {'from': 'NVMe', 'to': 'host', 'bytes': 9 << 30, 'ops': 1152},
                       {'from': 'host', 'to': 'GPU', 'bytes': 30 << 30, 'ops': 3840}]
    return result


def kv_trace():
    """A trace of two hours: nothing was stored, and more seconds than a page keeps."""
    result = sample('kv')
    k = result['kv']
    k['mode'], result['series'] = 'trace', []
    for t in k['tiers']:
        t['kind'] = 'trace'
    k['tiers'][2]['limit_bytes'] = None
    n = len(k['seconds']['t'])
    for name, column in k['seconds'].items():
        k['seconds'][name] = list(range(7200)) if name == 't' else [column[i % n] for i in range(7200)]
    return result


def ranks():
    """Three processes as one: one is lost, and what they have is skewed."""
    result = sample('bench')
    clocks = [{'rank': i, 'offset_sec': off, 'error_sec': 2e-5} for i, off in enumerate((0.0, -1.5, 2.0))]
    result['series'][0]['ran']['engine'] = 'differs: io_uring; rank 1 (node1): libaio'
    nothing = dict.fromkeys(('bytes_per_sec', 'p50', 'p99', 'share', 'start', 'first_done', 'last_done', 'end', 'idle_tail'))

    def row(i, rate, tail):
        return {'rank': i, 'name': f'rank {i} (node{i})', 'bytes_per_sec': rate, 'p50': 0.001 * (i + 1), 'p99': 0.002 * (i + 1), 'share': 0.5, 'start': 0.0,
                'first_done': 0.01, 'last_done': 2 - tail, 'end': 2 - tail, 'idle_tail': tail}
    result['ranks'] = {
        'how': 'mpi',
        'members': [{'name': f'rank {i} (node{i})', 'host': f'node{i}', 'partial': i == 2, 'clock': c, **({'lost': 'its connection <i>ended</i>'} if i == 2 else {})}
                    for i, c in enumerate(clocks)],
        'series': [{'name': s['name'], 'bytes_per_sec': 3e9, 'sum_bytes_per_sec': 4e9, 'straggler_cost': 0.25, 'slowest': 1, 'skew_sec': 0.3 * (n == 0), 'skewed': n == 0,
                    'rate_ci95': [1e9, 3e9], 'latency_ci95': [0.001, 0.0025],
                    'rows': [row(0, 3e9, 0.5), row(1, 1e9, 0.0), {'rank': 2, 'name': 'rank 2 (node2)', **nothing}]} for n, s in enumerate(result['series'])]}
    return result


def null_engine():
    """Nothing was stored."""
    result = sample('bench')
    for s in result['series']:
        s['ran'].update(engine='null', direct='nothing moved')
    return result


def replay_late():
    """A replay that did not keep up, and in which something failed."""
    result = sample('replay')
    r = result['replay']
    r['lag'].update(slope=0.25, last=1.5, overloaded=True)
    r['errors'].update(reads=3, verify=2, first='k7: offset 4096 holds 0x00 <b>')
    return result


def kv_odd():
    """What a run on storage may lack: no hits, no samples, no GPU; failures; counted as upstream does."""
    result = sample('kv')
    k = result['kv']
    k['cache'].update(hits=0, misses=0, hit_rate=None)
    k['errors'].update(reads=3, writes=1, verify=2, first='cache/a.npy: Input/output error <b>')
    k['compat'], k['late_operations'], k['tensor_ranks'] = True, 0, 8
    k['tiers'][0].update(kind='absent', how=None, limit_bytes=0)
    for t in k['tiers']:
        for name in ('read', 'write', 'evict_read', 'evict_write'):
            t[name] = None
    k['latency'] = dict.fromkeys(k['latency'], None) | {'qos': dict.fromkeys(k['latency']['qos'], None)}
    k['storage_health'].update(criteria=[], passed_count=0, total_count=0)
    k['seconds'] = {name: [] for name in k['seconds']}
    for s in result['series']:
        s.update(ops=0, bytes=0, bytes_per_sec=0, latency=None, bandwidth=None, samples=[],
                 per_second={key: [] for key in s['per_second']})
        s['histogram']['buckets'] = []
    for f in result['flows']:
        f.update(bytes=0, ops=0)
    return result


def odd():
    """Everything that may be missing is: nothing counted, sizes that differ, nobody knows the device."""
    result = sample('bench')
    for s in result['series']:
        s['size'] = None
    empty = result['series'][0]
    empty.update(ops=0, bytes=0, sec=0, bytes_per_sec=0, latency=None, bandwidth=None, samples=[],
                 per_second={key: [] for key in empty['per_second']})
    empty['histogram']['buckets'] = []
    empty['cpu']['sec_per_gib'] = None
    empty['limit'] = {'bytes_per_sec': None, 'share': None, 'how': 'nothing was measured'}
    one = result['series'][1]
    one['latency'].update(stddev=None, ci95=None)
    one['bandwidth'].update(stddev=None, ci95=None)
    result['targets'][0].update(block_device=None, file_system=None, mount=None, direct=False, direct_why_not=None)
    result['machine'].update(cpu=None, gpu='NVIDIA H200')
    return result


def limits():
    """Writes whose limit needs a word, and reads that are faster than theirs, of a version that had no note."""
    result = sample('bench')
    for s in result['series']:
        s['limit'].update({'note': 'these writes fill fresh files'} if s['kind'] == 'write' else {'share': 1.2})
    return result


def nothing():
    return dict(sample('bench'), series=[], fio=[], partial=True, partial_why='interrupted')


def long_run():
    """Half an hour, two peaks, failures, no known limit."""
    result = sample('bench')
    draw = random.Random(7)
    for s in result['series']:
        n = 1800
        s['per_second'] = {
            't': list(range(n)), 'span': [1.0] * n, 'ops': [100] * n,
            'bytes': [int(s['bytes_per_sec'] * draw.uniform(.7, 1.1)) for _ in range(n)],
            'latency_mean': [s['latency']['mean']] * (n - 1) + [None],
            'latency_max': [s['latency']['max'] * draw.uniform(.5, 2) for _ in range(n - 1)] + [None]}
        s['limit'] = {'bytes_per_sec': None, 'share': None, 'how': 'not measured'}
        s['errors'], s['first_error'] = 3, 'read f: Input/output error'
    return result


def store(policy, mib, hit_rate, broken=0):
    """A replay on a KV store."""
    result = sample('replay')
    with open(os.path.join(HERE, '../../share/penstock-result-1.schema.json'), encoding='utf-8') as f:
        counts = {name: 7 for name in json.load(f)['$defs']['store']['required']}
    result['store'] = {**counts, 'policy': policy, 'capacity_bytes': mib << 20, 'hit_rate': hit_rate, 'written_per_set': 1.25,
                       'corrupt': broken, 'errors': 0, 'directories_out': 0}
    return result


def stores():
    return [store('lru', 64, 0.25), store('lru', 16, 0.125), store('s3-fifo', 16, 0.5, broken=2)]


def requests(failed):
    """A bench in an object store behind two endpoints."""
    result = sample('bench')
    levels = {'n': 9, 'exact': False, 'mean': 0.003, 'max': 0.03, 'p50': 0.002, 'p90': 0.004, 'p95': 0.005, 'p99': 0.01, 'p99.9': 0.02, 'p99.99': 0.03,
              'histogram': {'unit': 'ns', 'max_error': 0.004, 'buckets': []}}
    with open(os.path.join(HERE, '../../share/penstock-result-1.schema.json'), encoding='utf-8') as f:
        counts = {name: 7 for name in json.load(f)['$defs']['objects']['required']}
    endpoints = [{'url': f'http://host{i}:9000', 'up': i == 0, 'attempts': 40 + i, 'failed': i, 'left_out': i, 'read_bytes': 1 << 20, 'written_bytes': 5}
                 for i in range(2)]
    result['objects'] = {**counts, 'region': 'us-east-1', 'style': 'path', 'checksum': 'crc32c', 'payload': 'unsigned', 'credentials': 'environment',
                         'endpoints': endpoints, 'failed': failed, 'throttled': 3, 'absent': 2, 'first_byte': {**levels, 'p50': 0.001},
                         'last_byte': levels, 'put': None}
    return result


MAKERS = {
    'bench': lambda out: penstock('report', save('bench.json', sample('bench')), '-o', out),
    'sweep': lambda out: penstock('report', save('sweep.json', sample('sweep')), '-o', out),
    'tune': lambda out: penstock('report', save('tune.json', sample('tune')), '-o', out),
    'both': lambda out: penstock('report', save('nvme0.json', sample('bench')), save('nvme1.json', slower()),
                               save('grid.json', sample('sweep')), save('race.json', sample('tune')), '-o', out),
    'many': lambda out: penstock('report', *(save(f'run{i}.json', sample('bench')) for i in range(30)), '-o', out),
    'hostile': lambda out: penstock('report', save('x<y>.json', hostile()), '-o', out),
    'odd': lambda out: penstock('report', save('odd.json', odd()), '-o', out),
    'nothing': lambda out: penstock('report', save('nothing.json', nothing()), '-o', out),
    'limits': lambda out: penstock('report', save('limits.json', limits()), '-o', out),
    'tiers': lambda out: penstock('report', save('tiers.json', tiers()), '-o', out),
    'kv': lambda out: penstock('report', save('kv.json', {'requests_completed': 1, 'penstock': sample('kv')}), '-o', out),
    'kv_trace': lambda out: penstock('report', save('kvtrace.json', kv_trace()), '-o', out),
    'kv_odd': lambda out: penstock('report', save('kvodd.json', kv_odd()), '-o', out),
    'kv_both': lambda out: penstock('report', save('a.json', sample('kv')), save('b.json', kv_trace()), '-o', out),
    'replay': lambda out: penstock('report', save('replay.json', sample('replay')), '-o', out),
    'replay_late': lambda out: penstock('report', save('late.json', replay_late()), save('fine.json', sample('replay')), '-o', out),
    'stores': lambda out: penstock('report', *(save(f'store{i}.json', r) for i, r in enumerate(stores())), '-o', out),
    'objects': lambda out: penstock('report', *(save(f'objects{i}.json', requests(i)) for i in range(2)), '-o', out),
    'ckpt': lambda out: penstock('report', save('ckpt.json', sample('ckpt')), '-o', out),
    'ranks': lambda out: penstock('report', save('ranks.json', ranks()), '-o', out),
    'trace': lambda out: penstock('report', save('trace.json', sample('trace')), '-o', out),
    'summary': lambda out: penstock('report', save('summary.json', sample('summary')), '-o', out),
    'reference': lambda out: penstock('report', save('reference.json', sample('reference')), save('kv.json', sample('kv')), '-o', out),
    'null': lambda out: penstock('report', save('null.json', null_engine()), '-o', out),
    'long': lambda out: penstock('report', save('long.json', long_run()), '-o', out),
    'compare': lambda out: penstock('compare', save('before.json', sample('bench')), save('after.json', slower()),
                                  '--fail-if', 'slower:5%', '--html', out, status=1),
}


def show(kind, **how):
    if web is None:
        raise tap.Skip('chromium', chromium.missing())
    if not CHARTS:
        raise tap.Skip('chartjs', 'this build has no Chart.js')
    web.open(page(kind), **how)


def at(value, path):
    """What the script's valueAt() does: "latency.p99.9" is a percentile."""
    front, dot, percentile = path.partition('.p')
    for key in front.split('.'):
        value = None if value is None else value[int(key)] if isinstance(value, list) else value[key]
    if dot and percentile[0].isdigit():
        return None if value is None else value['percentiles']['p' + percentile]
    return value if not dot else at(value, 'p' + percentile)


# ------------------------------------------------------------------------------------------ cases

def all_charts_are_drawn():
    for kind, expected in (('bench', {'bandwidth', 'latency', 'distribution', 'time'}),
                           ('sweep', set()), ('kv', {'kv-time', 'distribution', 'time'}),
                           ('replay', {'replay-time', 'distribution', 'time'}), ('ckpt', {'distribution'}), ('compare', {'change', 'bandwidth', 'distribution'})):
        show(kind)
        drawn = set()
        for canvas in web.driver.find_elements('css selector', 'canvas'):
            colours = web.js(PIXELS, canvas)
            assert colours > 8, (kind, canvas.get_attribute('id'), colours)
            drawn.add(canvas.get_attribute('id').replace('chart-', ''))
        assert drawn >= expected, (kind, drawn)


def what_the_charts_show_is_what_the_JSON_says():
    result = sample('bench')
    show('bench')
    bars = web.js('''return charts.find((c) => c.canvas.id === 'chart-bandwidth').chart.data.datasets
        .map((d) => [d.label, d.data])''')
    for kind in ('read', 'write'):
        expected = [s for s in result['series'] if s['kind'] == kind]
        expected.sort(key=lambda s: s['size'])
        assert [kind, [s['bytes_per_sec'] for s in expected]] in bars, bars
        assert [f'limit: {kind}', [s['limit']['bytes_per_sec'] for s in expected]] in bars, bars
    lines = dict(web.js('''return charts.find((c) => c.canvas.id === 'chart-latency').chart.data.datasets
        .map((d) => [d.label, d.data])'''))
    reads = sorted((s for s in result['series'] if s['kind'] == 'read'), key=lambda s: s['size'])
    assert lines['read p99'] == [s['latency']['percentiles']['p99'] for s in reads], lines
    shares = web.js('''return charts.find((c) => c.canvas.id === 'chart-distribution').chart.data.datasets
        .map((d) => d.data.reduce((sum, p) => sum + p.y, 0))''')
    assert len(shares) == len(result['series']) and all(abs(x - 1) < 1e-9 for x in shares), shares


def every_number_of_the_table_equals_the_JSON():
    for kind in ('bench', 'sweep'):
        show(kind)
        paths = web.js('return columns.map((c) => c.path || null)')
        rows = web.js('''return [...document.querySelectorAll('#table-series tbody tr')].map((r) =>
            [...r.children].map((c) => c.hasAttribute('data-value') ? c.dataset.value : null))''')
        series = sample(kind)['series']
        assert len(rows) == len(series), (len(rows), len(series))
        for row, s in zip(rows, series):
            assert row[0] == s['name'], (row[0], s['name'])
            for path, cell in list(zip(paths, row))[1:]:
                value = at(s, path)
                same = cell == value if isinstance(value, str) else \
                    cell is None if value is None else float(cell) == value
                assert same, (s['name'], path, cell, value)


def numbers_are_readable_and_right():
    show('bench')
    said = web.js('''return [format.rate(4147118746.44), format.time(0.0012062), format.time(0), format.size(2097152),
        format.size(1500), format.percent(0.6686), format.time(12.5), format.rate(0), format.count(123456),
        formatValue('time', null), formatTick('rate', 5e9)]''')
    assert [s.replace('\u00a0', ' ').replace('\u202f', ' ') for s in said] == [
        '4.15 GB/s', '1.21 ms', '0 s', '2 MiB', '1.46 KiB', '66.9 %', '12.5 s', '0.00 B/s', '123 456', '\u2013',
        '5 GB/s'], said


def the_cards_show_the_best_and_its_share_of_the_limit():
    result = sample('bench')
    show('bench')
    cards = web.js('''return [...document.querySelectorAll('.card .big[data-series]')].map((c) =>
        [c.dataset.series, +c.dataset.value, +c.parentNode.querySelector('.share').dataset.value])''')
    expected = []
    for kind in ('write', 'read'):
        s = max((s for s in result['series'] if s['kind'] == kind), key=lambda s: s['bytes_per_sec'])
        expected.append([s['name'], s['bytes_per_sec'], s['limit']['share']])
    assert cards == expected, (cards, expected)


def heat_cells():
    return {(c['row'], c['column']): (c['series'], c['value']) for c in web.js('''
        const t = document.querySelector('table.heat');
        const heads = [...t.tHead.rows[0].cells].slice(1).map((c) => c.textContent);
        return [...t.tBodies[0].rows].flatMap((r) => [...r.cells].slice(1).map((c, i) => ({row: r.cells[0].textContent,
            column: heads[i], series: c.dataset.series, value: +c.dataset.value})))''')}


def the_heat_map_equals_the_JSON():
    result = sample('sweep')
    show('sweep')
    cells = heat_cells()
    assert len(cells) == 9, cells
    for kind in ('read', 'write'):
        if kind == 'write':
            web.js('''[...document.querySelectorAll('#heat .toggle button')].find((b) => b.textContent === 'write').click()''')
            cells = heat_cells()
        for (block, depth), (name, value) in cells.items():
            number, unit = block.split('\u00a0')
            size = int(number) << {'KiB': 10, 'MiB': 20}[unit]
            best = max((s for s in result['series'] if s['kind'] == kind and
                        s['settings']['block_size'] == size and s['settings']['queue_depth'] == int(depth)),
                       key=lambda s: s['bytes_per_sec'])
            assert (name, value) == (best['name'], best['bytes_per_sec']), (block, depth, name, value)
        marked = web.js('''return document.querySelector('table.heat td.best').dataset.series''')
        assert marked == max((s for s in result['series'] if s['kind'] == kind),
                             key=lambda s: s['bytes_per_sec'])['name'], marked


def the_search_of_tune_equals_the_JSON():
    tune = sample('tune')['tune']
    show('tune')
    assert json.loads(web.js('return document.querySelector("pre.config").textContent')) == tune['config']
    rows = web.js('''return [...document.querySelectorAll('#table-contenders tbody tr')].map((r) =>
        [...r.children].slice(0, 5).map((c) => c.dataset.value))''')
    assert rows[0][0] == tune['winner'] and len(rows) == len(tune['contenders']), rows[0]
    by_name = {c['name']: c for c in tune['contenders']}
    for name, read, write, behind, probes in rows:
        c = by_name[name]
        assert (float(read), float(write), float(behind), int(probes)) == (
            c['read_bytes_per_sec'], c['write_bytes_per_sec'], c['behind'], c['probes']), name
    effects = web.js('''return [...document.querySelectorAll('#table-importance [data-value]')].map((c) => +c.dataset.value)''')
    assert effects == sorted((i['effect'] for i in tune['importance']), reverse=True), effects
    card = web.js('return document.querySelector(".card .big").dataset.series')
    assert card == 'read_' + tune['winner'], card
    assert web.js('return document.querySelector("table.heat td.best") !== null')


def nothing_of_what_tune_found_is_cut():
    for size in chromium.SIZES:
        show('tune', size=size)
        width, room = web.js('''const t = document.getElementById('table-importance');
            return [t.scrollWidth, t.parentNode.clientWidth]''')
        assert width <= room, (size, width, room)
        labels, room = web.js('''const y = charts.find((c) => c.canvas.id === 'chart-behind').chart.scales.y;
            const c = y.ctx; c.save(); c.font = Chart.helpers.toFont(y.options.ticks.font).string;
            const widths = y.ticks.map((t) => [].concat(t.label)).flat().map((l) => [l, c.measureText(l).width]);
            c.restore(); return [widths, y.width]''')
        names = {c['name'] for c in sample('tune')['tune']['contenders']}
        assert ''.join(label for label, _ in labels) and all(w <= room for _, w in labels), (size, labels, room)
        whole = web.js('''const y = charts.find((c) => c.canvas.id === 'chart-behind').chart.scales.y;
            return y.ticks.map((t) => [].concat(t.label).join(''))''')
        assert len(whole) == 12 and set(whole) <= names, (size, whole)


def reads_are_cold_and_writes_are_warm_in_every_chart():
    for kind in ('bench', 'both'):
        show(kind)
        families = web.js('''return ['r', 'w'].map((f) => [0, 1, 2, 3, 4].map((i) => cssVariable('--' + f + i)))''')
        drawn = web.js('''return charts.flatMap((c) => c.chart.data.datasets.map((d) =>
            [c.canvas.id, d.series ? d.series.kind : (/ ?(read|write)( |$)/.exec(d.label) || [])[1], d.borderColor]))
            .filter(([id, kind]) => kind)''')
        assert {chart for chart, _, _ in drawn} >= {'chart-bandwidth', 'chart-latency', 'chart-distribution', 'chart-time'}
        for chart, direction, colour in drawn:
            assert colour[:7] in families[direction == 'write'], (kind, chart, direction, colour)


def units_and_limits_are_explained_beside_the_cards():
    show('bench')
    assert '1 GB = 10' in web.js('return document.querySelector("#summary .units").textContent')
    assert web.js('return document.querySelectorAll(".limit-note").length') == 0
    show('tune')
    assert '1.07 GB/s' in web.js('return document.querySelector("#summary .units").textContent')
    show('limits')
    notes = web.js('return [...document.querySelectorAll(".limit-note")].map((e) => e.textContent)')
    assert notes[0] == 'These writes fill fresh files.' and notes[1].startswith('Above 100 %: '), notes


def a_result_without_series_says_so_in_one_sentence():
    show('nothing')
    notes = web.js('return [...document.querySelectorAll(".note")].map((e) => e.textContent)')
    assert 'Nothing was measured: this result has no series.' in notes, notes
    assert web.js('return document.getElementById("numbers")') is None


def the_heat_map_can_be_turned_and_filtered():
    show('sweep')
    web.js('''const select = [...document.querySelectorAll('#heat select')];
        const by = (text) => select.find((s) => s.parentNode.textContent.startsWith(text));
        by('single submit').selectedIndex = 2;
        by('single submit').dispatchEvent(new Event('change'));''')
    assert all('single' in name for name, _ in heat_cells().values()), heat_cells()
    web.js('''const rows = [...document.querySelectorAll('#heat select')].find((s) => s.parentNode.textContent.startsWith('rows'));
        rows.selectedIndex = [...rows.options].findIndex((o) => o.textContent === 'queue depth');
        rows.dispatchEvent(new Event('change'));''')
    assert sorted({row for row, _ in heat_cells()}, key=int) == ['8', '32', '128'], heat_cells()


def a_comparison_shows_its_verdicts_and_its_gate():
    show('compare')
    comparison = json.loads(penstock('compare', f'{folder.name}/before.json', f'{folder.name}/after.json', '--json', '-'))
    rows = web.js('''return [...document.querySelectorAll('#table-compare tbody tr')].map((r) =>
        [...r.children].map((c) => c.dataset.value))''')
    for row, expected in zip(rows, comparison['rows'], strict=True):
        assert row[:2] == [expected['name'], expected['verdict']], row
        for at, figure in ((2, 'median'), (8, 'bandwidth'), (14, 'p99')):
            said = [None if v is None else float(v) for v in row[at:at + 6]]
            x = expected[figure]
            assert said == [x['a'], x['b'], x['ratio'], *x['interval'], x['p']], (figure, said, x)
    text = web.js('return document.querySelector(".note").textContent')
    assert 'slower in 1 of 6' in text and 'slower:5%: failed' in text, text
    reasons = web.js('return [...document.querySelectorAll(".note .reasons li")].map((e) => e.textContent)')
    assert reasons and all(r.startswith('read 8M: ') for r in reasons), reasons
    change = '''return charts.find((c) => c.canvas.id === 'chart-change').chart.data.datasets[0].data'''
    for figure, button in (('bandwidth', 'bandwidth'), ('p99', 'p99 latency'), ('median', 'median latency')):
        web.js('''[...document.querySelectorAll('#comparison .toggle button')].find((b) =>
            b.textContent === arguments[0]).click()''', button)
        assert web.js(change) == [r[figure]['ratio'] - 1 for r in comparison['rows']], figure
    assert [r['name'] for r in comparison['rows'] if r['verdict'] == 'slower'] == ['read 8M'], comparison['summary']


def nothing_is_asked_of_the_network_and_the_console_is_silent():
    if web is None:
        raise tap.Skip('chromium', chromium.missing())
    for kind in MAKERS:
        show(kind)
        web.js('''document.querySelectorAll('details').forEach((d) => { d.open = true; });
            document.querySelectorAll('.toggle button, th button').forEach((b) => b.click());''')
        web.listen()
    assert not web.complaints, web.complaints
    strange = [u for u in web.requests if not u.startswith(('file:///', 'data:', 'chrome:', 'about:'))]
    assert not strange and len(web.requests) >= len(MAKERS), strange
    files = {u for u in web.requests if u.startswith('file:')}
    assert files <= {'file://' + p for p in pages.values()}, files


def names_are_text_whatever_is_in_them():
    show('hostile')
    assert web.js('return window.broken') is None
    assert web.js('''return document.querySelectorAll('main img, main script, main i:not(.meter i), main b').length''') == 0
    name = hostile()['series'][0]['name']
    assert web.js('''return document.querySelector('#table-series tbody th').textContent''') == name
    assert web.js("return /[\\u0000-\\u0008\\u001b\\u202e]/.test(document.documentElement.innerText)") is False
    assert 'interrupted <i>here</i>' in web.js('return document.querySelector(".note").textContent')


def flows_between_tiers_are_drawn():
    show('tiers')
    bands = web.js('''return [...document.querySelectorAll('svg.flows path title')].map((t) => t.textContent)''')
    assert len(bands) == 4 and any(b.startswith('GPU') and '40\u00a0GiB' in b for b in bands), bands


def the_cards_of_a_cache_equal_the_JSON():
    k = sample('kv')['kv']
    show('kv')
    cards = dict(web.js("""return [...document.querySelectorAll('[data-kv]')].map((c) => [c.dataset.kv, +c.dataset.value])"""))
    sec, storage = k['elapsed_sec'], k['tiers'][2]
    assert cards == {'tokens': k['tokens'] / sec, 'hits': k['cache']['hit_rate'], 'read': storage['read_bytes'] / sec,
                     'written': storage['written_bytes'] / sec}, cards
    tiers = web.js("""return [...document.querySelectorAll('[data-tier]')].map((c) => c.textContent)""")
    assert [t.split(':')[0] for t in tiers] == ['GPU', 'CPU', 'storage'], tiers
    assert f"{k['tiers'][1]['entries']} entries" in tiers[1] and 'bookkeeping at 64 GB/s' in tiers[0], tiers


def the_flows_of_a_cache_equal_the_JSON():
    flows = [f for f in sample('kv')['flows'] if f['bytes']]
    show('kv')
    rows = web.js("""return [...document.querySelectorAll('#table-flows tbody tr')].map((r) => [...r.cells].map((c) => c.dataset.value))""")
    assert rows == [[f['from'], f['to'], str(f['bytes']), str(f['ops'])] for f in flows], rows
    bands = web.js("""return [...document.querySelectorAll('svg.flows path title')].map((t) => t.textContent)""")
    assert len(bands) == len(flows) > 4, bands
    heights = web.js("""return [...document.querySelectorAll('svg.flows rect')].map((r) => +r.getAttribute('height'))""")
    assert max(heights) <= 300 and min(heights) >= 4, heights


def the_run_over_time_equals_the_JSON():
    s = sample('kv')['kv']['seconds']
    show('kv')

    def column(choice):
        return web.js("""const select = document.querySelector('#kvtime select');
            select.selectedIndex = [...select.options].findIndex((o) => o.textContent === arguments[0]);
            select.dispatchEvent(new Event('change'));
            return charts.find((c) => c.canvas.id === 'chart-kv-time').chart.data.datasets.map((d) => d.data.map((p) => p.y))""", choice)

    def over(a, b):
        return [x / y if y else None for x, y in zip(a, b)]
    asked = [h + m for h, m in zip(s['hits'], s['misses'])]
    assert column('hit rate') == [over(s['hits'], asked)]
    assert column('storage bandwidth') == [over(s['nvme_read_bytes'], s['span']), over(s['nvme_write_bytes'], s['span'])]
    assert column('storage latency') == [over(s['read_latency_sum'], s['read_ops']), over(s['write_latency_sum'], s['write_ops'])]
    assert column('requests') == [over(s['requests'], s['span']), s['queued'], s['in_flight']]
    assert column('tokens') == [over(s['tokens'], s['span'])]
    assert len(column('all tiers')) == 3


def hit_rates_of_stores_are_a_curve_over_capacity():
    show('stores')
    lines = web.js("""const c = charts.find((x) => x.canvas.id === 'chart-store-curve').chart.data;
        return [c.labels, Object.fromEntries(c.datasets.map((d) => [d.label, d.data]))]""")
    assert [label.replace('\u00a0', ' ') for label in lines[0]] == ['16 MiB', '64 MiB'], lines
    assert lines[1] == {'lru': [0.125, 0.25], 's3-fifo': [0.5, None]}, lines
    rows = web.js("""return [...document.querySelectorAll('#table-store tbody tr')].map((r) => [...r.cells].map((c) => c.dataset.value))""")
    assert [(row[1], float(row[5])) for row in rows] == [(r['store']['policy'], r['store']['hit_rate']) for r in stores()], rows
    text = web.js('return document.getElementById("main").textContent')
    assert '2 values were not what was written' in text and 'objects were made on the way' not in text
    show('replay')
    assert not web.js('return document.getElementById("store")')


def requests_and_endpoints_of_object_stores_equal_the_JSON():
    show('objects')
    cells = """return [...document.querySelectorAll('#table-%s tbody tr')].map((r) => [...r.cells].map((c) => c.dataset.value))"""
    rows = web.js(cells % 'objects')
    assert [row[1:8] for row in rows] == [['7', str(i), '2', '7', '3', '7', '7'] for i in range(2)], rows
    assert [float(v) for v in rows[0][8:12]] == [0.001, 0.01, 0.002, 0.01] and not any(rows[0][12:]), rows
    ends = web.js(cells % 'endpoints')
    assert len(ends) == 4 and [row[2:5] for row in ends[:2]] == [['40', '0', '0'], ['41', '1', '1']], ends
    assert [row[-1] for row in ends[:2]] == ['up', 'left out'], ends
    assert '1 of 7 requests to the object store failed' in web.js('return document.getElementById("main").textContent')
    show('replay')
    assert not web.js('return document.getElementById("objects")')


def a_replay_over_time_and_by_operation_equals_the_JSON():
    r = sample('replay')['replay']
    s = r['seconds']
    show('replay')

    def column(choice):
        return web.js("""const select = document.querySelector('#replaytime select');
            select.selectedIndex = [...select.options].findIndex((o) => o.textContent === arguments[0]);
            select.dispatchEvent(new Event('change'));
            return charts.find((c) => c.canvas.id === 'chart-replay-time').chart.data.datasets.map((d) => d.data.map((p) => p.y))""", choice)
    assert column('bandwidth') == [[b / t for b, t in zip(s[name], s['span'])] for name in ('read_bytes', 'write_bytes')]
    assert column('lag') == [s['lag_mean'], s['lag_max']]
    assert column('operations')[2] == s['in_flight']
    rows = web.js("""return [...document.querySelectorAll('#table-replay-classes tbody tr')].map((r) => [...r.cells].map((c) => c.dataset.value))""")
    assert [(row[0], row[1]) for row in rows] == [(' '.join([c['operation'], c['tier'], c['phase'], c['size']]), str(c['ops'])) for c in r['classes']]
    assert [float(row[4]) for row in rows] == [c['latency']['mean'] for c in r['classes']]
    text = web.js('return document.getElementById("main").textContent')
    assert 'Overloaded' not in text and f"{r['cache']['created']['ops']} objects were made on the way" in text
    show('replay_late')
    text = web.js('return document.getElementById("main").textContent')
    assert 'Overloaded' in text and '0.25 s in each second' in text and '<b>' in text and '3 reads' in text, text[:2000]


def rows_of_ranks_equal_the_JSON():
    r = ranks()['ranks']
    show('ranks')
    table = lambda name: web.js("""return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map((r) => [...r.cells].map((c) => [c.dataset.value ?? null, c.textContent]))""",
                                '#table-' + name)
    number = lambda v: None if v is None else float(v)
    expected = [[row['name'], s['name'], *(row[k] for k in ('bytes_per_sec', 'share', 'p50', 'p99', 'first_done', 'last_done', 'idle_tail'))]
                for s in r['series'] for row in (s['rows'][2], s['rows'][1], s['rows'][0])]  # nothing, and then the slowest first
    got = [[cells[0][0], cells[1][0], *(number(c[0]) for c in cells[2:])] for cells in table('ranks-0')]
    assert got == expected, (got[:3], expected[:3])
    lines = table('ranks-series-0')
    assert [[cells[0][0], *(number(c[0]) for c in cells[1:4]), cells[4][0], number(cells[5][0])] for cells in lines] == [
        [s['name'], 3e9, 4e9, 0.25, 'rank 1 (node1)', s['skew_sec']] for s in r['series']], lines
    assert lines[0][6][1] == '1.00\u00a0GB/s to 3.00\u00a0GB/s' and lines[0][7][1] == '1.00\u00a0ms to 2.50\u00a0ms', lines[0]
    members = table('ranks-members-0')
    assert [(cells[0][0], number(cells[2][0]), number(cells[3][0]), cells[4][0]) for cells in members] == [
        (m['name'], m['clock']['offset_sec'], 2e-5, 'lost' if 'lost' in m else 'well') for m in r['members']], members
    text = web.js('return document.getElementById("main").textContent')
    for said in ('rank 2 (node2) is lost: its connection <i>ended</i>.', f"{r['series'][0]['name']}: ranks began 300\u00a0ms apart", 'engine differs: io_uring; rank 1'):
        assert said in text, (said, text[:3000])
    assert text.count('ranks began') == 1


def methods_of_checkpoints_equal_the_JSON():
    c = sample('ckpt')['ckpt']
    ways = [w for m in c['methods'] for w in (m['save'], m['load'])]
    show('ckpt')
    rows = web.js("""return [...document.querySelectorAll('#table-ckpt-methods tbody tr')].map((r) => [...r.cells].map((c) => c.dataset.value))""")
    assert [row[0] for row in rows] == [w['series'] for w in ways], rows
    assert [float(row[2]) for row in rows] == [w['bytes_per_sec'] for w in ways], rows
    assert [float(row[4]) for row in rows] == [w['reference']['duration_sec'] for w in ways], rows
    assert [float(row[5]) for row in rows] == [w['reference']['throughput'] for w in ways], rows
    assert [row[8] for row in rows] == [w['bottleneck'] or '' for w in ways], rows


def the_latencies_of_a_cache_equal_the_JSON():
    k = sample('kv')['kv']
    show('kv')
    rows = {r[0]: r[1:] for r in web.js("""return [...document.querySelectorAll('#table-kv-latency tbody tr')].map((r) =>
        [r.cells[0].textContent, ...[...r.cells].slice(1).map((c) => +c.dataset.value)])""")}
    names = ['n', 'mean', 'p50', 'p95', 'p99', 'p99.9', 'p99.99', 'max']
    for row, stats in (('request, end to end', k['latency']['end_to_end']), ('storage: object read', k['tiers'][2]['read']),
                       ('storage: write, at the device', k['tiers'][2]['device_write']), ('request, batch', k['latency']['qos']['batch'])):
        assert rows[row] == [stats[n] for n in names], (row, rows[row])


def a_trace_and_a_poor_run_say_what_they_are():
    show('kv_trace')
    text = web.js('return document.getElementById("main").textContent')
    assert 'nothing was stored' in text and 'no limit' in text and 'Latencies' not in text and 'thinned' in text
    total = sum(kv_trace()['kv']['seconds']['tokens'])
    web.js("""const select = document.querySelector('#kvtime select'); select.selectedIndex = 5; select.dispatchEvent(new Event('change'))""")
    assert web.js('return kvResults[0].kv.seconds.t.length') <= 3600
    assert web.js('return kvResults[0].kv.seconds.tokens.reduce((a, b) => a + b, 0)') == total, 'joined, not left out'
    show('kv_odd')
    text = web.js('return document.getElementById("main").textContent')
    assert '3 reads failed, 1 write failed' in text and '<b>' in text and '--compat' in text and 'there is none' in text, text
    assert 'of one of 8 ranks' in text and 'one of 8 tensor-parallel ranks' in text, text


def a_page_opens_on_what_matters():
    opens = "return [...document.querySelectorAll('#kvtime select, #replaytime select')].map((s) => s.value || s.options[s.selectedIndex].text)"
    for kind, expected in (('kv', 'storage bandwidth'), ('kv_trace', 'hit rate'), ('replay', 'bandwidth'), ('replay_late', 'lag')):
        show(kind)
        assert web.js(opens) == [expected], (kind, web.js(opens))


def nothing_stored_has_no_bandwidth_of_storage():
    show('kv_trace')
    assert web.js("return [...document.querySelectorAll('[data-kv]')].map((x) => x.dataset.kv)") == ['tokens', 'hits']
    show('null')
    big = web.js("return [...document.querySelectorAll('.card .big')].map((x) => x.textContent)")
    assert not any('/s' in text for text in big) and any('operations' in text for text in big), big


def tables_fit_and_the_navigation_says_everything_once():
    chromium.SIZES['laptop'] = (1300, 900)
    for kind in ('bench', 'sweep', 'tune', 'kv_both', 'replay_late', 'ckpt', 'ranks', 'reference', 'trace', 'summary', 'compare'):
        show(kind, size='laptop')
        cut = web.js("""return [...document.querySelectorAll('.scroll')].filter((x) => x.scrollWidth > x.clientWidth + 1 && !x.closest('#heat, [id^=heat]'))
            .map((x) => [x.closest('section').id, x.scrollWidth, x.clientWidth])""")
        assert not cut, (kind, cut)
        nav = web.js("return [...document.querySelectorAll('#nav li')].map((x) => x.textContent)")
        assert len(nav) == len(set(nav)) and ('Over time' not in nav or not {'Run', 'Replay'} & set(nav)), (kind, nav)
    del chromium.SIZES['laptop']


def a_trace_equals_the_JSON():
    t = sample('trace')
    show('trace')
    big = [float(v) for v in web.js("return [...document.querySelectorAll('.card .big')].map((x) => x.dataset.value)")]
    moved = [sum(o['bytes'] for o in t['operations'] if o['operation'] == op) for op in ('Read', 'Write')]
    assert big == [t['rows'], *moved, t['objects']['keys']], big
    data = web.js("return charts.map((c) => c.chart.data.datasets[0].data)")
    assert data[0] == [s['rows'] for s in t['sizes']['powers_of_two']]
    assert data[1] == [c['share'] for c in t['reuse']['lru_cache']]
    assert [p['y'] for p in data[2]] == [w['read_bytes'] / t['working_set']['seconds'] for w in t['working_set']['windows']]


def a_summary_equals_the_JSON():
    s = sample('summary')['options']
    show('summary')
    big = [float(v) for v in web.js("return [...document.querySelectorAll('.card .big')].map((x) => x.dataset.value)")]
    assert big == [o['aggregated_read_bandwidth_gbps'] * 2 ** 30 for o in s.values()], big
    text = web.js('return document.getElementById("main").textContent')
    assert 'Not as a submission must be' in text and 'option_3/trial_3/rank_1' in text and '1 of 2 ranks stored nothing' in text, text


def the_result_of_the_reference_equals_its_JSON():
    r = sample('reference')
    show('reference')
    cards = {k: float(v) for k, v in reversed(web.js("return [...document.querySelectorAll('[data-kv]')].map((x) => [x.dataset.kv, x.dataset.value])"))}
    assert abs(cards['tokens'] - r['total_tokens_generated'] / r['summary']['elapsed_time']) < 1e-9, cards
    stats = r['summary']['cache_stats']
    for name, key in (('read', 'read'), ('written', 'write')):
        assert abs(cards[name] / 2 ** 30 / stats[f'tier_storage_{key}_bandwidth_gbps'] - 1) < 1e-6, (name, cards)
    rows = dict(web.js("""return [...document.querySelectorAll('#table-kv-latency tbody tr')].map((r) => [r.cells[0].textContent, r.cells[3].dataset.value])"""))
    assert float(rows['reference.json: storage: object read']) == stats['storage_read_p50_ms'] / 1e3, rows


def damaged(draw, value):
    """A copy of a result with one member changed."""
    if isinstance(value, (dict, list)) and value and draw.random() < 0.9:
        value = copy.copy(value)
        key = draw.choice(list(value)) if isinstance(value, dict) else draw.randrange(len(value))
        value[key] = damaged(draw, value[key])
        return value
    return draw.choice([None, True, 0, 0.5, 1e300, '', 'x', [], {}, *([{k: v for k, v in value.items() if draw.random() < 0.7}] if isinstance(value, dict) else [])])


def what_is_not_refused_is_drawn_to_the_end():
    if web is None:
        raise tap.Skip('chromium', chromium.missing())
    seed = int(os.environ.get('PENSTOCK_TEST_SEED', 3))
    print(f'# PENSTOCK_TEST_SEED={seed}')
    draw, drawn = random.Random(seed), 0
    out = pages['damaged'] = os.path.join(folder.name, 'damaged.html')
    for name in ('kv', 'replay', 'ckpt', 'tune', 'bench', 'trace', 'summary', 'reference'):
        good = 0
        while good < 6:
            path = save('damaged.json', damaged(draw, sample(name)))
            done = subprocess.run([PENSTOCK, 'report', path, '-o', out], stderr=subprocess.PIPE, text=True)
            assert done.returncode in (0, 2) and done.stderr.count('\n') == (done.returncode != 0), done
            if done.returncode:
                continue
            good += 1
            before = len(web.complaints)
            web.open(out)
            assert len(web.complaints) == before, (name, web.complaints[before:])
            assert web.js("return document.querySelectorAll('section').length") >= 1
            drawn += 1
    assert drawn == 48


def the_keyboard_reaches_everything():
    show('bench')
    from selenium.webdriver.common.keys import Keys
    wanted = web.js('''return [...document.querySelectorAll('a[href], button, select, input, canvas, summary, [tabindex="0"]')]
        .filter((e) => e.checkVisibility()).length''')
    seen, first = 0, None
    for _ in range(2 * wanted):
        web.press(Keys.TAB)
        now = web.js('''const e = document.activeElement; e.dataset.seen = 1;
            return e.tagName + (e.id || e.textContent.slice(0, 20))''')
        seen = web.js('return document.querySelectorAll("[data-seen]").length')
        if first is None:
            first = now
            assert 'Skip' in now, now
        if seen >= wanted:
            break
    assert seen >= wanted, (seen, wanted)


def arrow_keys_tell_the_points_of_a_chart():
    show('bench')
    from selenium.webdriver.common.keys import Keys
    web.js('document.getElementById("chart-bandwidth").focus()')
    web.press(Keys.ARROW_RIGHT)
    first = web.js('return document.getElementById("live").textContent')
    web.press(Keys.ARROW_RIGHT)
    second = web.js('return document.getElementById("live").textContent')
    assert 'MiB' in first and 'GB/s' in first and first != second, (first, second)
    assert web.js('return charts[0].chart.tooltip.opacity') == 1


def a_chart_has_the_same_as_a_table():
    show('bench')
    web.js('document.querySelector("#latency details.data").open = true')
    wait = 'const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))'
    web.driver.execute_async_script(wait)
    cells = web.js('''return [...document.querySelectorAll('#latency details.data td')].map((c) => c.textContent)''')
    assert len(cells) == 18 and all(c.split('\u00a0')[-1] in ('ms', '\u00b5s', '\u2013') for c in cells), cells


def tables_can_be_sorted_and_copied():
    show('bench')
    web.js('''[...document.querySelectorAll('#table-series th button')].find((b) => b.textContent === 'bandwidth').click()''')
    values = [float(v) for v in web.js('''return [...document.querySelectorAll('#table-series tbody tr')].map((r) =>
        r.cells[2].dataset.value)''')]
    assert values == sorted(values, reverse=True), values
    web.js('''window.copied = []; navigator.clipboard.writeText = async (text) => { copied.push(text); };
        document.querySelectorAll('#numbers .controls button').forEach((b) => b.click());''')
    tsv, markdown = web.js('return copied')
    lines = [line.split('\t') for line in tsv.splitlines()]
    assert len(lines) == 7 and len({len(line) for line in lines}) == 1, lines
    assert float(lines[1][2]) == values[0], lines[1]
    assert markdown.count('\n') == 8 and markdown.startswith('| series |'), markdown


def luminance(colour):
    channels = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    x, y = sorted((luminance(a), luminance(b)), reverse=True)
    return (x + 0.05) / (y + 0.05)


def text_has_contrast_in_light_and_in_dark():
    for dark in (False, True):
        show('bench', dark=dark)
        assert web.js('return document.documentElement.classList.contains("dark")') is dark
        for text, ground in (('text', 'bg'), ('text', 'card'), ('soft', 'card'), ('soft', 'bg'), ('accent', 'card'),
                             ('good', 'good-bg'), ('bad', 'bad-bg'), ('warn', 'warn-bg')):
            ratio = contrast(*web.js('return [cssVariable("--" + arguments[0]), cssVariable("--" + arguments[1])]', text, ground))
            assert ratio >= 4.5, (dark, text, ground, ratio)


def the_button_changes_the_colours():
    show('bench')
    before = web.js('return getComputedStyle(document.body).backgroundColor')
    web.js('document.getElementById("theme").click(); document.getElementById("theme").click()')
    after = web.js('return [getComputedStyle(document.body).backgroundColor, document.getElementById("theme").textContent]')
    assert after[0] != before and after[1] == 'Dark', (before, after)


def a_long_run_is_thinned_out_and_says_so_only_then():
    show('long')
    assert web.js('return charts.find((c) => c.canvas.id === "chart-time").chart.data.datasets[0].data.length') >= 40
    text = web.js('return document.getElementById("main").textContent')
    assert 'operations failed' in text and 'not measured' in text
    assert ('thinned' in text) is bool(web.js('return page.thinned'))


def nothing_is_wider_than_the_screen_of_which_a_picture_is_taken():
    os.makedirs(SHOTS, exist_ok=True)
    for kind in MAKERS:
        for size in chromium.SIZES:
            show(kind, size=size, dark=size == 'phone')
            width, inner = web.js('const d = document.documentElement; return [d.scrollWidth, d.clientWidth]')
            assert width <= inner, (kind, size, width, inner)
            path = os.path.join(SHOTS, f'{kind}-{size}.png')
            web.screenshot(path)
            assert os.path.getsize(path) > 10000, path


CASES = [all_charts_are_drawn, what_the_charts_show_is_what_the_JSON_says,
         every_number_of_the_table_equals_the_JSON, numbers_are_readable_and_right,
         the_cards_show_the_best_and_its_share_of_the_limit, the_heat_map_equals_the_JSON,
         the_search_of_tune_equals_the_JSON, nothing_of_what_tune_found_is_cut,
         reads_are_cold_and_writes_are_warm_in_every_chart, units_and_limits_are_explained_beside_the_cards,
         a_result_without_series_says_so_in_one_sentence, the_heat_map_can_be_turned_and_filtered,
         a_comparison_shows_its_verdicts_and_its_gate, names_are_text_whatever_is_in_them,
         flows_between_tiers_are_drawn, the_cards_of_a_cache_equal_the_JSON,
         the_flows_of_a_cache_equal_the_JSON, the_run_over_time_equals_the_JSON, the_latencies_of_a_cache_equal_the_JSON,
         hit_rates_of_stores_are_a_curve_over_capacity, requests_and_endpoints_of_object_stores_equal_the_JSON, a_replay_over_time_and_by_operation_equals_the_JSON, methods_of_checkpoints_equal_the_JSON, rows_of_ranks_equal_the_JSON,
         a_page_opens_on_what_matters, nothing_stored_has_no_bandwidth_of_storage, tables_fit_and_the_navigation_says_everything_once,
         a_trace_equals_the_JSON, a_summary_equals_the_JSON, the_result_of_the_reference_equals_its_JSON, what_is_not_refused_is_drawn_to_the_end,
         a_trace_and_a_poor_run_say_what_they_are, the_keyboard_reaches_everything, arrow_keys_tell_the_points_of_a_chart, a_chart_has_the_same_as_a_table,
         tables_can_be_sorted_and_copied, nothing_is_wider_than_the_screen_of_which_a_picture_is_taken,
         text_has_contrast_in_light_and_in_dark, the_button_changes_the_colours,
         a_long_run_is_thinned_out_and_says_so_only_then,
         nothing_is_asked_of_the_network_and_the_console_is_silent]

if not chromium.missing():
    web = chromium.Browser()
try:
    tap.run(*CASES)
finally:
    if web:
        web.close()
    folder.cleanup()
