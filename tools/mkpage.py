#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the C file that holds the page of `penstock report`.

    tools/mkpage.py [--chart chart.min.js --licence FILE] --out page.c PAGE.html PAGE.css SCRIPT.js...

The page is one HTML file without the results: what stands before them and what stands behind
them, as two C strings.  @css@, @chart@, @licence@ and @script@ in PAGE.html are replaced by the
files, @data@ is where the results go.  Without --chart the strings are empty, and `penstock report`
says that this build cannot.
"""
import argparse
import html
import re
import sys

LINE = 2000  # characters of one C string; compilers join them


def read(name):
    with open(name, encoding='utf-8') as f:
        return f.read()


def without_spdx(text):
    """The line is for this repository; the page says its licence once."""
    return re.sub(r'^(/\*|//|<!--) SPDX-License-Identifier:.*\n', '', text)


def licence(name):
    """Debian's copyright file: the part that Chart.js is under, as it is."""
    text = read(name)
    if 'Chart.js Contributors' not in text or 'Permission is hereby granted' not in text:
        sys.exit(f'mkpage: {name} is not the licence of Chart.js')
    return html.escape(text)


def inside_script(name):
    text = without_spdx(read(name))
    if re.search(r'</script|<!--', text, re.I):
        sys.exit(f'mkpage: {name} cannot stand in an HTML page: it contains </script or <!--')
    return text


def compose(args):
    page = without_spdx(read(args.page))
    parts = {
        'css': without_spdx(read(args.css)),
        'chart': inside_script(args.chart),
        'licence': licence(args.licence),
        'script': '\n'.join(inside_script(name) for name in args.scripts),
    }
    for key in parts:
        if page.count(f'@{key}@') != 1:
            sys.exit(f'mkpage: {args.page} must have @{key}@ once')
    page = re.sub('@(' + '|'.join(parts) + ')@', lambda m: parts[m[1]], page)
    head, found, tail = page.partition('@data@')
    if not found:
        sys.exit(f'mkpage: {args.page} has no @data@')
    return head, tail


def c_string(text):
    """Octal escapes, which end after three digits whatever follows."""
    out = []
    data = text.encode()
    for at in range(0, len(data), LINE):
        out.append('\t"' + ''.join(
            '\\n' if b == 10 else f'\\{b:03o}' if b < 32 or b > 126 or b in b'"\\?' else chr(b)
            for b in data[at:at + LINE]) + '"')
    return '\n'.join(out) or '\t""'


def main():
    p = argparse.ArgumentParser()
    p.add_argument('--chart')
    p.add_argument('--licence')
    p.add_argument('--out', required=True)
    p.add_argument('page')
    p.add_argument('css')
    p.add_argument('scripts', nargs='+')
    args = p.parse_args()
    head, tail = compose(args) if args.chart else ('', '')
    with open(args.out, 'w', encoding='ascii') as f:
        f.write('/* Made by tools/mkpage.py. */\n#include "load/report/page/html.h"\n')
        for name, text in (('head', head), ('tail', tail)):
            f.write(f'\nconst char report_page_{name}[] =\n{c_string(text)};\n')


if __name__ == '__main__':
    main()
