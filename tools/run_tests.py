#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build, run tests, count them case by case.

    tools/run_tests.py [-k WORD] [--python PYTHON] [--until TIME] [--skipped WHAT] DIR[:SUITE,...] ...

Each DIR is a build directory the Makefile knows; "DIR" runs all of its tests, "DIR:" none
(it must build), "DIR:unit,engine" those suites.  -k runs only programs whose name contains WORD,
--python runs those that are Python scripts with another Python, --skipped counts what the caller could not even begin.
What has not begun at --until, in seconds since 1970, is skipped.

A test program speaks TAP on standard output.  Exit status 77 means skipped.  A program that
dies, that stops before its plan is fulfilled, that has no plan, or that exits with an error
although no case failed counts as one failure.  There is no time limit: a slow machine is not a
failure; who runs for long is named now and then.  One that hangs, see tools/hang.py, is ended.

One in which cases failed runs again at the end, alone; what failed at first and passed then is told and
does not count.  That is for cases: who died, hung or was caught by a sanitizer has failed.

The reason of a skip is what follows "# SKIP", or the comment line before it (cmocka 1.1.5 has
no place for a reason).  PENSTOCK_TEST_REQUIRE, which the programs themselves read, turns skips into
failures on machines that must have what a test needs.
"""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

import hang

PLAN = re.compile(r'1\.\.(\d+)\s*(?:#\s*skip\w*\s*(.*))?$', re.I)
RESULT = re.compile(r'(not )?ok\b\s*\d*\s*(?:- )?(.*?)\s*(?:#\s*(skip|todo)\w*:?\s*(.*))?$', re.I)
GROUP = re.compile(r'#\s*(not )?ok - ')  # cmocka's verdict on a group
SANITIZER = re.compile(r'\b\w+Sanitizer\b|runtime error:')
TAIL_LINES = 40
STILL_RUNNING_SECONDS = 60
SHORT_NAME = 70


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)   # what failed
    skipped: list = dataclasses.field(default_factory=list)  # (case, reason)


def parse_tap(text, out):
    """Count the cases of one program's output; returns (planned or None, seen)."""
    planned, seen, comment = None, 0, ''
    for line in text.splitlines():
        line = line.strip()
        plan, result = PLAN.match(line), RESULT.match(line)
        if plan:
            planned = (planned or 0) + int(plan[1])  # one plan per group of a cmocka program
            if plan[1] == '0':
                out.skipped.append(('everything', plan[2] or comment or 'no reason given'))
        elif result:
            seen += 1
            case, why = result[2], result[4] or ''
            if not case:  # cmocka: "not ok 2 # SKIP the_name_of_the_case"
                case, why = why, ''
            if result[3]:
                out.skipped.append((case, why or comment or 'no reason given'))
            elif result[1]:
                out.failed.append(case)
            else:
                out.passed += 1
            comment = ''
        elif line.startswith('#') and not GROUP.match(line):
            comment = re.sub(r'^#\s*(skip(ped)?:\s*)?', '', line, flags=re.I)
    return planned, seen


def judge(stdout, stderr, status):
    """The outcome of one finished program."""
    out = Outcome()
    planned, seen = parse_tap(stdout, out)
    if status == 77 and not seen:
        lines = (stdout + stderr).split('\n')
        why = next((s.strip('# ') for s in reversed(lines) if s.strip()), 'no reason given')
        out.skipped = [('everything', why)]
    elif status < 0:
        out.failed.append(f'killed by {signal.Signals(-status).name} after {seen} cases')
    elif planned is None:
        out.failed.append(f'no plan, exit status {status}')
    elif seen < planned:
        out.failed.append(f'stopped after {seen} of {planned} cases, exit status {status}')
    elif status and not out.failed:
        out.failed.append(f'exit status {status} although no case failed')
    return out


def remove(folder):
    """With what is in it, but never into something a test left mounted there."""
    subprocess.run(['rm', '-rf', '--one-file-system', folder], check=False)


@contextlib.contextmanager
def short_name(folder):
    """The folder by a name that a socket in it can have: the kernel takes 107 bytes of a path."""
    if len(folder) <= SHORT_NAME:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix='penstock-') as place:
        os.symlink(folder, os.path.join(place, 't'))
        yield os.path.join(place, 't')


def with_python(cmd, python):
    """The words of a program, of a Python script with another Python."""
    return [python, *cmd[1:]] if python and os.path.basename(cmd[0]).startswith('python') else cmd


class Program:
    """One test of Meson's."""

    def __init__(self, build, test):
        self.build = build.dir
        # "project:suite" in newer versions of Meson
        self.suites = [s.split(':')[-1] for s in test['suite']]
        self.name = f'{self.build} {"/".join(self.suites + [test["name"]])}'
        self.env = test['env']
        self.cmd = build.wrapper + with_python(test['cmd'], build.python)
        if self.cmd[0].startswith(os.path.abspath(self.build) + '/'):
            # Built for another processor: what runs it there.  Scripts look for themselves.
            self.cmd[:0] = shlex.split(self.env.get('PENSTOCK_TEST_RUN', ''))
        self.cwd = test.get('workdir')
        self.priority = test['priority']
        self.out = None
        self.first = []  # what failed before it ran again
        self.seconds = self.cpu = 0
        self.stuck = []  # where it was when it was ended

    def logs(self):
        """Where its output is kept; a second run leaves that of the first, which failed, alone."""
        name = re.sub(r'[^-.\w]+', '-', self.name) + ('-again' if self.first else '')
        return os.path.abspath(f'{self.build}/test-logs/{name}')

    def run(self, running):
        base = self.logs()
        os.makedirs(os.path.dirname(base), exist_ok=True)
        # On the disk under the build directory, not in /tmp: O_DIRECT is what we test.
        tmp = base + '.tmp'
        remove(tmp)
        os.makedirs(tmp)
        begin = time.monotonic()
        with short_name(tmp) as short, open(base + '.out', 'wb') as o, open(base + '.err', 'wb') as e:
            env = dict(os.environ, CMOCKA_MESSAGE_OUTPUT='TAP', TMPDIR=short, PENSTOCK_TEST_DIR=tmp)
            env.update(self.env)
            env.pop('MAKEFLAGS', None)
            child = subprocess.Popen(self.cmd, cwd=self.cwd or tmp, env=env, stdin=subprocess.DEVNULL,
                                     stdout=o, stderr=e, start_new_session=True)
            running[self] = hang.Watch(child.pid), begin
            _, status, used = os.wait4(child.pid, 0)
            status = child.returncode = os.waitstatus_to_exitcode(status)
            del running[self]
        self.seconds, self.cpu = time.monotonic() - begin, used.ru_utime + used.ru_stime
        remove(tmp)
        with open(base + '.out', errors='replace') as o, open(base + '.err', errors='replace') as e:
            self.judge(o.read(), e.read(), status)

    def judge(self, stdout, stderr, status):
        self.out = judge(stdout, stderr, status)
        self.text = (stdout + stderr).splitlines()
        self.final = status < 0 or bool(self.stuck) or any(SANITIZER.search(line) for line in self.text)
        if self.stuck:
            self.out.failed.append(f'hangs: next to no processor time used for {hang.SECONDS} s')

    def skip(self, why):
        self.out = Outcome(skipped=[('everything', why)])

    def report(self):
        out = self.out
        counts = [f'{out.passed} passed']
        if out.failed:
            counts.append(f'{len(out.failed)} FAILED')
        if out.skipped:
            counts.append(f'{len(out.skipped)} skipped')
        print(f'{self.name}: {", ".join(counts)} ({self.seconds:.1f} s, CPU {self.cpu:.1f} s)')
        if out.failed:
            for line in [t for t in self.text if not re.match(r'ok \d', t)][-TAIL_LINES:]:
                print('    ' + line)
        for line in self.stuck:
            print('    ' + line)
        sys.stdout.flush()


class Build:
    """One build directory, and which of its suites are wanted (None: all)."""

    def __init__(self, arg, python=None):
        self.dir, colon, suites = arg.partition(':')
        self.python = python
        self.suites = [s for s in suites.split(',') if s] if colon else None
        self.wrapper = []

    def make(self):
        """Configure and compile; returns whether that worked."""
        make = [os.environ.get('MAKE', 'make'), '--no-print-directory', self.dir, 'TESTS=1']
        print(f'{self.dir}: building', flush=True)
        done = subprocess.run(make, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            print('\n'.join(done.stdout.splitlines()[-2 * TAIL_LINES:]))
        return done.returncode == 0

    def programs(self):
        with open(f'{self.dir}/meson-info/intro-buildoptions.json') as f:
            options = {o['name']: o['value'] for o in json.load(f)}
        if options['b_sanitize'] not in ('none', []):  # Meson 1.8 has a list
            self.wrapper = fixed_addresses()
        with open(f'{self.dir}/meson-info/intro-tests.json') as f:
            tests = [Program(self, t) for t in json.load(f)]
        return [t for t in tests if self.suites is None or set(t.suites) & set(self.suites)]


def fixed_addresses():
    """The sanitizers of gcc 12 die where the kernel randomises addresses too well."""
    wrapper = ['setarch', '-R']
    try:
        ok = subprocess.run(wrapper + ['true'], stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        ok = False
    return wrapper if ok else []


def watch(running, stop):
    """Name those who run for long, end those who hang."""
    while not stop.wait(STILL_RUNNING_SECONDS):
        found = hang.processes()
        for program, (process, begin) in list(running.items()):
            now = time.monotonic()
            if now - begin > STILL_RUNNING_SECONDS:
                print(f'{program.name}: still running, {now - begin:.0f} s', flush=True)
            if process.hangs(now, found):
                program.stuck = process.stacks()
                process.kill()


def in_order(programs):
    """What takes longest, by Meson's priority, first.  Then of every build directory the same share at any
    time: what waits for a clock, in one of them, runs beside what computes, in another."""
    builds = {}
    for p in programs:
        builds.setdefault(p.build, []).append(p)
    share = {p: i / len(b) for b in builds.values() for i, p in enumerate(b, 1)}
    return sorted(programs, key=lambda p: (-p.priority, share[p]))


def run_all(programs, until):
    running, stop = {}, threading.Event()
    threading.Thread(target=watch, args=(running, stop), daemon=True).start()
    jobs = len(os.sched_getaffinity(0)) + 2  # there are always some that wait, for the disk or for a clock

    def run(program):
        if time.time() < until:
            program.run(running)
        else:
            program.skip('the time for all tests was over')
        return program

    try:
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            try:
                for task in concurrent.futures.as_completed([pool.submit(run, p) for p in in_order(programs)]):
                    task.result().report()
                for p in programs:
                    if p.out.failed and not p.final and time.time() < until:
                        p.first = p.out.failed
                        pool.submit(p.run, running).result()
                        p.report()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                for process, _ in list(running.values()):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
    finally:
        stop.set()


def print_skipped(programs, not_begun):
    groups = {}
    for p in programs:
        for case, why in p.out.skipped:
            groups.setdefault((why, p.name), []).append(case)
    if groups or not_begun:
        print('\nSkipped:')
    for what in not_begun:
        print(f'  {what}')
    for (why, program), cases in sorted(groups.items()):
        names = ', '.join(cases[:3]) + (f' and {len(cases) - 3} more' if len(cases) > 3 else '')
        print(f'  {program}: {names}: {why}')


def print_first(programs):
    passed = [p for p in programs if p.first and not p.out.failed]
    if passed:
        print('\nFailed at first, passed when run again with nothing beside:')
    for p in passed:
        for what in p.first:
            print(f'  {p.name}: {what}')


def print_failed(programs, broken):
    if not broken and not any(p.out.failed for p in programs):
        return
    print('\nFailed:')
    for b in broken:
        print(f'  {b.dir}: does not build')
    for p in programs:
        for what in p.out.failed:
            print(f'  {p.name}: {what}')


def restore_signals():
    """What a shell ignores for a job in the background, programs would ignore, too, and those that
    send themselves an interrupt would wait for ever.  A handler is not handed down."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def main():
    parser = argparse.ArgumentParser(description='Build, run tests, count them case by case.')
    parser.add_argument('-k', metavar='WORD', default='', help='only programs whose name has WORD')
    parser.add_argument('--python', help='run Python scripts with this one')
    parser.add_argument('--until', type=float, metavar='TIME', default=float('inf'),
                        help='begin no program later, in seconds since 1970')
    parser.add_argument('--skipped', metavar='WHAT', action='append', default=[], help='count this as skipped')
    parser.add_argument('build', nargs='*', metavar='DIR[:SUITE,...]')
    args = parser.parse_args()
    # As for an interrupt: what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    restore_signals()
    python = os.path.abspath(args.python) if args.python else None
    builds = [Build(b, python) for b in args.build]
    broken = [b for b in builds if not b.make()]
    programs = [p for b in builds if b not in broken for p in b.programs() if args.k in p.name]
    run_all(programs, args.until)

    print_skipped(programs, args.skipped)
    print_first(programs)
    print_failed(programs, broken)
    # That a directory builds, without a warning, is a case too.
    passed = len(builds) - len(broken) + sum(p.out.passed for p in programs)
    failed = len(broken) + sum(len(p.out.failed) for p in programs)
    skipped = len(args.skipped) + sum(len(p.out.skipped) for p in programs)
    print(f'\n{passed} passed, {failed} failed, {skipped} skipped')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
