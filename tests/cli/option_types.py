# SPDX-License-Identifier: Apache-2.0
"""An option table whose field has the wrong type does not compile.

    option_types.py ROOT GENERATED_INCLUDE_FOLDER CC...
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
import tap

ROOT, GENERATED, *CC = sys.argv[1:]

SOURCE = '''
#include "cli/opt/opt.h"
struct sub { uint32_t n; };
struct args {
	bool flag; int number; int64_t i64; double real; uint32_t u32; uint64_t u64; const char *text; char *mutable_text;
	struct cli_list list; struct sub sub;
};
static const char *const words[] = {"a", "b", NULL};
static const struct cli_opt sub_opts[] = {CLI_END};
const struct cli_opt opts[] = { %s, CLI_END };
const void *const used[] = {words, sub_opts};
'''

GOOD = {
    'CLI_FLAG': 'CLI_FLAG(struct args, {}, 0, "x", "help")',
    'CLI_NOT': 'CLI_NOT(struct args, {}, 0, "x", "help")',
    'CLI_BIT': 'CLI_BIT(struct args, {}, 1, 0, "x", "help")',
    'CLI_OUT': 'CLI_OUT(struct args, {}, 0, "x", "X", NULL, "help")',
    'CLI_STR': 'CLI_STR(struct args, {}, 0, "x", "X", NULL, "help")',
    'CLI_U32': 'CLI_U32(struct args, {}, 0, "x", "N", "1", 0, 9, "help")',
    'CLI_U64': 'CLI_U64(struct args, {}, 0, "x", "N", "1", 0, 9, "help")',
    'CLI_SIZE': 'CLI_SIZE(struct args, {}, 0, "x", "N", "1", 0, 9, "help")',
    'CLI_DBL': 'CLI_DBL(struct args, {}, 0, "x", "N", "1", 0, 9, "help")',
    'CLI_ENUM': 'CLI_ENUM(struct args, {}, 0, "x", words, "a", "help")',
    'CLI_LIST': 'CLI_LIST(struct args, {}, 0, "x", "X", NULL, 0, 9, "help")',
    'CLI_PLACES': 'CLI_PLACES(struct args, {}, 0, "x", "X", NULL, 0, 9, "help")',
    'CLI_TABLE': 'CLI_TABLE(struct args, {}, struct sub, sub_opts)',
}
FIELD = {'CLI_FLAG': 'flag', 'CLI_NOT': 'flag', 'CLI_BIT': 'u32', 'CLI_OUT': 'text', 'CLI_STR': 'text', 'CLI_U32': 'u32', 'CLI_U64': 'u64', 'CLI_SIZE': 'u64',
         'CLI_DBL': 'real', 'CLI_ENUM': 'u32', 'CLI_LIST': 'list', 'CLI_PLACES': 'list',
         'CLI_TABLE': 'sub'}
FIELDS = ('flag', 'number', 'i64', 'real', 'u32', 'u64', 'text', 'mutable_text', 'list', 'sub')


def compiles(line):
    done = subprocess.run([*CC, '-std=gnu11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Werror', '-fsyntax-only',
                           f'-I{ROOT}', f'-I{ROOT}/include', f'-I{ROOT}/src', f'-I{GENERATED}', '-xc', '-'],
                          input=SOURCE % line, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0, done.stdout


def case(macro):
    def check():
        ok, text = compiles(GOOD[macro].format(FIELD[macro]))
        assert ok, text
        for field in FIELDS:
            if field != FIELD[macro]:
                ok, _ = compiles(GOOD[macro].format(field))
                assert not ok, f'{macro} takes the field {field}'
    return f'{macro} takes {FIELD[macro]} and nothing else', check


tap.run(*[case(macro) for macro in GOOD])
