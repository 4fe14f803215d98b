# SPDX-License-Identifier: Apache-2.0
"""Runs programs and fio, and reads what they measured."""
import contextlib
import json
import os
import signal
import subprocess

import places
from places import Unavailable, text_of


class Broken(Exception):
    """A program of the benchmark failed: this, unlike slowness, is an error."""


def call(command, cwd=None):
    """What a command printed, standard output and error; none of it is left running."""
    # A session of its own: Ctrl-C reaches only us, and fio's jobs can be ended together.
    child = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        out, err = child.communicate()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        raise
    if child.returncode:
        raise Broken(f'{" ".join(command)}\nended with status {child.returncode}: {err or out}')
    return out, err


def measured(command, cwd):
    """Run it: what it printed, CPU seconds and peak memory of it and its children."""
    out = os.path.join(cwd, 'stdout')
    with open(out, 'w') as f, open(os.path.join(cwd, 'stderr'), 'w') as err:
        child = subprocess.Popen(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=f, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise Broken(f'{" ".join(command)}\nended with status {child.returncode}: {text_of(err.name)}')
    return text_of(out), {'cpu_seconds': usage.ru_utime + usage.ru_stime, 'rss': usage.ru_maxrss << 10}


def program(command, cwd=None):
    """One run of perf-bare or perf-mover: its line of JSON."""
    return json.loads(call(command, cwd)[0])


def options(path, direction, engine, block, depth, size, jobs=1):
    return ['fio', '--name=job', f'--filename={path}', f'--rw={direction}', f'--ioengine={engine}',
            f'--bs={block}', f'--iodepth={depth}', f'--size={size}', f'--numjobs={jobs}',
            '--direct=1', '--fallocate=none', '--group_reporting', '--output-format=json']


def run(command, cwd=None):
    """One run of fio, in the words of our own programs.

    Time and CPU are what fio reports of its jobs, so that its start-up, which takes longer than
    a short run, counts for nothing.  It reports whole milliseconds, cut off: up to 1 ms of time
    and 2 ms of CPU (user and system apart) are missing, in favour of fio.
    """
    text = call(command, cwd)[0]
    job = json.loads(text[text.index('{'):])['jobs'][0]
    if job['error']:
        raise Broken(f'{" ".join(command)}\nerror {job["error"]}')
    side = max(job['read'], job['write'], key=lambda s: s['io_bytes'])
    if not side['runtime']:
        raise Broken(f'{" ".join(command)}\ntook less than 1 ms: nothing to measure')
    return {
        'bytes': side['io_bytes'],
        'seconds': side['runtime'] / 1e3,
        'cpu_seconds': (job['usr_cpu'] + job['sys_cpu']) / 100 * job['job_runtime'] / 1e3,
        'iops': side['iops'],
    }


RESOLUTION_CPU = 0.002  # see run()


def memories(undo, size):
    """Its buffers of @size bytes in all: on small pages, and on huge ones where there are some; names, options."""
    try:
        undo.enter_context(places.hugetlb(size + (16 << 20)))
    except Unavailable as why:
        print(f'skipped: fio on huge pages: {why}')
        return [('', [])]
    return [('', []), (', huge pages', ['--iomem=mmaphuge'])]
