# SPDX-License-Identifier: Apache-2.0
"""The command as a user starts it: what the tests of all subcommands share.

    bench = clikit.Command('bench')
    out, err = bench('--size', '64K')            # must end with status 0
    assert '--size' in bench('--size', 'x', status=2).err

A test is called with the path of the command and, where it needs it, the root of the tree.
"""
import json
import os
import subprocess
import sys

import resultcheck
import tap

PENSTOCK = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None


class Done:
    """How a run ended; unpacks into its output and its messages."""

    def __init__(self, args, status, data, err):
        self.args, self.returncode, self.data = args, status, data
        self.out, self.err = (text.decode(errors='replace').replace('\r\n', '\n') for text in (data, err))

    def __iter__(self):
        return iter((self.out, self.err))

    def __repr__(self):
        return f'{self.args}: status {self.returncode}\n{self.out[-2000:]}\n{self.err}'


def start(*args, **more):
    return subprocess.Popen([PENSTOCK, *map(str, args)],
                            **{'stdin': subprocess.DEVNULL, 'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE, 'text': True, **more})


def call(*args, stdin=None, **more):
    """Run it, however it ends."""
    process = start(*args, text=False, **more, **({} if stdin is None else {'stdin': subprocess.PIPE}))
    out, err = process.communicate(stdin)
    return Done(args, process.returncode, out or b'', err or b'')


class Command:
    """A subcommand, by its words: Command('trace', 'stat')."""

    def __init__(self, *words):
        self.words = words

    def start(self, *args, **more):
        return start(*self.words, *args, **more)

    def __call__(self, *args, status=0, **more):
        """Run it; the exit status must be @status."""
        done = call(*self.words, *args, **more)
        assert done.returncode == status, done
        return done

    def result(self, *args, **more):
        """Run it and return its JSON, which must be right in itself."""
        result = json.loads(self('--json', '-', *args, **more).out)
        resultcheck.check(ROOT, result)
        return result

    def refused(self, *args, says=(), status=2, **more):
        """A bad command line: one line that names what is wrong, and nothing is made."""
        before = tree()
        done = self(*args, status=status, **more)
        assert not done.out and done.err.endswith('\n') and done.err.count('\n') == 1, done
        for word in [says] if isinstance(says, str) else says:
            assert word in done.err, (word, done)
        assert tree() == before, done
        return done.err

    def refusals(self, bad):
        """A case for each of {what: (arguments, what is said of them)}."""
        for what, (args, says) in bad.items():
            yield (f'{what} is refused with one line',
                   tap.in_folder(lambda args=args, says=says: self.refused(*args, says=says)))


def tree():
    """All that is in this folder."""
    return sorted(os.path.join(top, name) for top, folders, files in os.walk('.') for name in folders + files)


def save(name, content):
    """Write bytes, text or JSON; the name again."""
    if not isinstance(content, (bytes, str)):
        content = json.dumps(content)
    with open(name, 'wb') as f:
        f.write(content if isinstance(content, bytes) else content.encode())
    return name


def load(name):
    """The bytes of a file."""
    with open(name, 'rb') as f:
        return f.read()


def load_json(name):
    with open(name, encoding='utf-8') as f:
        return json.load(f)
