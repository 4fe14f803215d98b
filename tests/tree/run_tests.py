# SPDX-License-Identifier: Apache-2.0
"""The counting of tools/run_tests.py itself: run_tests.py SOURCE"""
import contextlib
import importlib.util
import io
import os
import signal
import subprocess
import sys
import time
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

sys.dont_write_bytecode = True
sys.path.insert(0, f'{sys.argv[1]}/tools')
import hang
spec = importlib.util.spec_from_file_location('runner', f'{sys.argv[1]}/tools/run_tests.py')
runner = importlib.util.module_from_spec(spec)
spec.loader.exec_module(runner)


def counts(stdout, status, stderr=''):
    out = runner.judge(stdout, stderr, status)
    return out.passed, len(out.failed), len(out.skipped)


def plain_TAP_is_counted():
    assert counts('1..3\nok 1 - a\nok 2 - b\nnot ok 3 - c\n', 1) == (2, 1, 0)
    assert counts('ok 1 - a\n1..1\n', 0) == (1, 0, 0)


def the_reason_of_a_skip_is_found():
    out = runner.judge('1..1\nok 1 - mount # SKIP not root\n', '', 0)
    assert out.skipped == [('mount', 'not root')]
    out = runner.judge('1..2\n# skip: not root\nnot ok 1 # SKIP mount\n# ok - g\nok 2 # SKIP b\n', '', 0)
    assert out.skipped == [('mount', 'not root'), ('b', 'no reason given')] and not out.failed
    out = runner.judge('1..0 # SKIP no io_uring\n', '', 0)
    assert out.skipped == [('everything', 'no io_uring')] and not out.failed


def several_groups_are_one_program():
    assert counts('1..1\nok 1 - a\n# ok - g\n1..1\nnot ok 1 - b\n# not ok - h\n', 1) == (1, 1, 0)


def status_77_is_a_skip():
    assert runner.judge('', 'no fuse\n', 77).skipped == [('everything', 'no fuse')]


def a_crash_is_one_failure():
    assert counts('1..3\nok 1 - a\n', -11) == (1, 1, 0)
    assert counts('', -6) == (0, 1, 0)


def too_few_cases_are_one_failure():
    assert counts('1..5\nok 1 - a\n', 0) == (1, 1, 0)
    assert counts('', 0) == (0, 1, 0)
    assert counts('no TAP at all\n', 0) == (0, 1, 0)


def a_bad_status_is_a_failure_though_all_cases_passed():
    assert counts('1..1\nok 1 - a\n', 23, 'LeakSanitizer: detected memory leaks\n') == (1, 1, 0)


def a_program_gets_the_signals_that_the_runner_was_told_to_ignore():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    runner.restore_signals()
    ends = subprocess.run([sys.executable, '-c', 'import os; os.kill(os.getpid(), 2)'], stderr=subprocess.DEVNULL)
    signal.signal(signal.SIGINT, before)
    assert ends.returncode == -signal.SIGINT, ends.returncode


def one_that_uses_no_processor_time_hangs():
    def hangs(*used):
        """Looked at each minute, when a process and its child had used so many seconds."""
        watch = hang.Watch(7)
        return [watch.hangs(60 * i, {7: (1, 7, 5.0), 8: (7, 8, u), 9: (1, 9, 100.0 * i)})
                for i, u in enumerate(used)]

    assert not any(hangs(*range(30))), 'the child gets on'
    assert hangs(*[3.0] * 12) == [False] * 10 + [True] * 2
    assert hangs(*[i / 60 for i in range(11)])[10], 'one that looks around now and then'
    assert not any(hangs(*[3.0] * 9, 0.0, *[0.0] * 9)), 'another child began'


def one_that_hangs_is_ended_with_all_it_started():
    child = subprocess.Popen(['sh', '-c', 'setsid sh -c "sleep 1000; true" & echo; wait'],
                             stdout=subprocess.PIPE, start_new_session=True)
    watch = hang.Watch(child.pid)
    child.stdout.readline()
    while not any(': sleep 1000' in line for line in watch.stacks()):
        pass
    watch.kill()
    assert child.wait() == -signal.SIGKILL
    assert child.stdout.read() == b'', 'nobody has it any more'


def the_longest_begin_and_every_build_has_its_share():
    class Program:
        def __init__(self, build, name, priority=0):
            self.build, self.name, self.priority = build, name, priority

    programs = [Program('a', f'a{i}') for i in range(4)] + [Program('b', 'b0'), Program('b', 'b1', priority=1)]
    assert [p.name for p in runner.in_order(programs)] == ['b1', 'a0', 'a1', 'b0', 'a2', 'a3']


class Scripted(runner.Program):
    """One whose runs end as it is told, the one after the other."""

    def __init__(self, name, *ends):
        self.build, self.name, self.priority, self.first, self.ends = 'a', name, 0, [], list(ends)
        self.seconds = self.cpu = 0
        self.stuck = []

    def run(self, running):
        self.kept = self.logs()
        self.judge(*self.ends.pop(0))


def ran(*programs, until=float('inf')):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        runner.run_all(programs, until)
        runner.print_first(programs)
    return said.getvalue()


PASSED, FAILED = ('1..1\nok 1 - a\n', '', 0), ('1..1\nnot ok 1 - a\n', '', 1)


def what_failed_runs_again_at_the_end():
    again, twice, well = Scripted('again', FAILED, PASSED), Scripted('twice', FAILED, FAILED), Scripted('well', PASSED)
    said = ran(again, twice, well)
    assert not again.out.failed and again.out.passed == 1 and not again.ends
    assert again.kept.endswith('/again-again') and well.kept.endswith('/well'), 'what failed is still there to be read'
    assert twice.out.failed == ['a'] and not twice.ends
    assert 'Failed at first' in said and said.endswith('  again: a\n'), said
    assert 'Failed at first' not in ran(Scripted('well', PASSED))


def who_died_or_was_caught_has_no_second_run():
    ends = [('1..1\n', '', -11), ('1..1\nnot ok 1 - a\n', 'ERROR: AddressSanitizer: heap-use-after-free', 1),
            ('1..1\nok 1 - a\n', 'WARNING: ThreadSanitizer: data race', 66),
            ('1..1\nnot ok 1 - a\n', 'a.c:7:3: runtime error: signed integer overflow', 1)]
    programs = [Scripted(f'p{i}', end, PASSED) for i, end in enumerate(ends)]
    ran(*programs)
    assert all(p.out.failed and len(p.ends) == 1 for p in programs)


def what_has_not_begun_in_time_is_skipped():
    late, failed = Scripted('late', PASSED), Scripted('failed', FAILED, PASSED)
    with unittest.mock.patch.object(runner.time, 'time', side_effect=[9, 9]):
        ran(late, until=9)
    assert late.out.skipped == [('everything', 'the time for all tests was over')] and late.ends
    with unittest.mock.patch.object(runner.time, 'time', side_effect=[8, 9]):
        ran(failed, until=9)
    assert failed.out.failed == ['a'] and failed.ends, 'no time for a second run'


tap.run(plain_TAP_is_counted, the_reason_of_a_skip_is_found, several_groups_are_one_program,
        status_77_is_a_skip, a_crash_is_one_failure, too_few_cases_are_one_failure,
        a_bad_status_is_a_failure_though_all_cases_passed,
        a_program_gets_the_signals_that_the_runner_was_told_to_ignore,
        one_that_uses_no_processor_time_hangs, one_that_hangs_is_ended_with_all_it_started,
        the_longest_begin_and_every_build_has_its_share,
        what_failed_runs_again_at_the_end, who_died_or_was_caught_has_no_second_run,
        what_has_not_begun_in_time_is_skipped)
