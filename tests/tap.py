# SPDX-License-Identifier: Apache-2.0
"""Test cases in Python: functions that raise are failures, the rest is TAP.

    from tap import Skip, run

    def a_sentence_that_should_hold():
        assert 1 + 1 == 2

    run(a_sentence_that_should_hold)
"""
import contextlib
import os
import sys
import tempfile
import traceback


class Skip(Exception):
    """Raised by a case that cannot be tried here: what it needs, in one word, and why not.

    PENSTOCK_TEST_REQUIRE=WORD,... makes a skip for want of one of the words a failure.
    """

    def __init__(self, need, why):
        super().__init__(why)
        self.required = need in os.environ.get('PENSTOCK_TEST_REQUIRE', '').split(',')


@contextlib.contextmanager
def folder():
    """An empty folder on the disk of the tests, current while it lasts."""
    back = os.getcwd()
    with tempfile.TemporaryDirectory(prefix='penstock-test-', dir=back) as name:
        os.chdir(name)
        try:
            yield name
        finally:
            os.chdir(back)


def in_folder(function):
    """A case that has such a folder of its own."""
    def run_there():
        with folder():
            function()
    run_there.__name__ = function.__name__
    run_there.is_case = True
    return run_there


def run(*cases):
    """Run functions, or (name, function) pairs; exits with 1 if one failed."""
    failed = 0
    print(f'1..{len(cases)}')
    for i, case in enumerate(cases, 1):
        name, function = case if isinstance(case, tuple) else (case.__name__, case)
        name = name.replace('_', ' ')
        try:
            function()
            print(f'ok {i} - {name}')
        except Skip as skip:
            failed += skip.required
            print(f'{"not ok" if skip.required else "ok"} {i} - {name}' +
                  (f'\n# required here: {skip}' if skip.required else f' # SKIP {skip}'))
        except Exception:
            failed += 1
            print(f'not ok {i} - {name}')
            for line in traceback.format_exc().splitlines():
                print(f'# {line}')
        sys.stdout.flush()
    sys.exit(1 if failed else 0)


def run_all(names):
    """Run what of globals() is marked @in_folder, in order: none can be forgotten."""
    run(*[f for f in list(names.values()) if getattr(f, 'is_case', False)])
