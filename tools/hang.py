#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tell a program that hangs from one that is slow: it and what it started use next to no processor time.

On a busy machine a program waits for its turn, but gets it: the time it used grows.  One that waits for what
never comes does not get on, however idle the machine is.
"""
import os
import shutil
import signal
import subprocess

SECONDS = 600  # to look back
SHARE = 0.01   # of a processor, less is a hang
STACK_SECONDS = 60
TICKS = os.sysconf('SC_CLK_TCK')


def processes():
    """What /proc says: {pid: (parent, session, seconds used, also by children that are gone)}."""
    found = {}
    for name in os.listdir('/proc'):
        if name.isdigit():
            try:
                with open(f'/proc/{name}/stat') as f:
                    words = f.read().rpartition(')')[2].split()
            except OSError:
                continue
            found[int(name)] = int(words[1]), int(words[3]), sum(map(int, words[11:15])) / TICKS
    return found


def process_tree(pid, found):
    """The process, its descendants, and those of its session that lost their parent."""
    members, more = set(), {p for p, (_, session, _) in found.items() if p == pid or session == pid}
    while more:
        members |= more
        more = {p for p, (parent, _, _) in found.items() if parent in members} - members
    return members


class Watch:
    """One running program, looked at now and then."""

    def __init__(self, pid):
        self.pid = pid
        self.seen = []  # (when, seconds used), the oldest just over SECONDS old

    def hangs(self, now, found):
        used = sum(found[p][2] for p in process_tree(self.pid, found))
        if self.seen and used < self.seen[-1][1]:
            self.seen = []  # one that nobody had waited for is gone: it gets on
        self.seen.append((now, used))
        while len(self.seen) > 1 and now - self.seen[1][0] >= SECONDS:
            self.seen.pop(0)
        since, before = self.seen[0]
        return now - since >= SECONDS and used - before < SHARE * (now - since)

    def stacks(self):
        """What all threads of the family are at, as lines."""
        return [line for p in sorted(process_tree(self.pid, processes())) for line in stacks(p)]

    def kill(self):
        """All of them: who is stopped starts no more, and does not end because another one did."""
        members = set()
        while more := process_tree(self.pid, processes()) - members:
            send(more, signal.SIGSTOP)
            members |= more
        send(members, signal.SIGKILL)


def send(pids, number):
    for p in pids:
        try:
            os.kill(p, number)
        except ProcessLookupError:
            pass


def read(path):
    try:
        with open(path, errors='replace') as f:
            return f.read().replace('\0', ' ').strip()
    except OSError:
        return '?'


def stacks(pid):
    lines = [f'process {pid}: {read(f"/proc/{pid}/cmdline")[:200]}']
    try:
        threads = sorted(os.listdir(f'/proc/{pid}/task'), key=int)
    except OSError:
        return lines
    for t in threads:
        task = f'/proc/{pid}/task/{t}'
        lines.append(f'  {t} {read(task + "/comm")}: in {read(task + "/wchan")}, call {read(task + "/syscall")}')
    if shutil.which('gdb'):
        cmd = ['gdb', '-p', str(pid), '-batch', '-nx', '-ex', 'thread apply all bt 16']
        try:
            done = subprocess.run(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, errors='replace', timeout=STACK_SECONDS)
            lines += ['  ' + s for s in done.stdout.splitlines() if s.startswith(('#', 'Thread'))]
        except subprocess.TimeoutExpired:
            lines.append('  gdb did not end')
    return lines
