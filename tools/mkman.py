#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the manual pages and the shell completion.

    tools/mkman.py --options FILE.json --python MODULE.py --prose docs/man --header include/penstock/penstock.h \\
        --out DIR

Three sources, each fact in one of them: the option tables (`penstock --dump-options`, and COMMAND in the
modules of commands that are written in Python), the prose (docs/man/*.md, a subset of Markdown) and
the comments of the public headers; a line "@include NAME" is what that file of the prose has.  Writes man1/, man3/
and man7/ for man(1), and bash/penstock, zsh/_penstock and fish/penstock.fish.  Fails when an option has
no paragraph ("### --name" under "## Options") or a paragraph no option.
"""
import argparse
import importlib.util
import itertools
import json
import os
import re
import sys
import textwrap

import completion


def fail(text):
    sys.exit(f'mkman: {text}')


# ------------------------------------------------------------------------------------------ roff

def esc(text):
    """Text with nothing special left in it for roff."""
    text = text.replace('\\', '\\e').replace('-', '\\-').replace("'", "\\(aq").replace('`', '\\(ga')
    return text.replace('^', '\\(ha').replace('~', '\\(ti')


def plain(text):
    """Lines of text: a dot or a quote at the start would be a request."""
    return re.sub(r"^([.'])", r'\\&\1', text, flags=re.M)


def fill(text):
    return plain(textwrap.fill(text, 80, break_long_words=False, break_on_hyphens=False))


def inline(text):
    """`code`, **bold**, *italic*."""
    out = []
    for part in re.split(r'(`[^`]+`|\*\*[^*]+\*\*|\*[^*]+\*)', text):
        if part.startswith('`'):
            out.append(f'\\fB{esc(part[1:-1])}\\fR')
        elif part.startswith('**'):
            out.append(f'\\fB{esc(part[2:-2])}\\fR')
        elif part.startswith('*') and len(part) > 2:
            out.append(f'\\fI{esc(part[1:-1])}\\fR')
        else:
            out.append(esc(part).replace('\\(aq', "'").replace('\\-', '-'))
    return fill(''.join(out))


def code(text):
    return '.EX\n' + re.sub(r'^$', r'\\&', plain(esc(text)), flags=re.M) + '\n.EE'


def display(text):
    """An indented block of code between paragraphs."""
    return '.PP\n.RS 4\n' + code(text) + '\n.RE'


def blocks(text):
    """Markdown without headings to roff: paragraphs, bullets, fenced code."""
    out = []
    for i, chunk in enumerate(re.split(r'^```\n(.*?)^```\n?', text, flags=re.M | re.S)):
        if i % 2:
            out.append(display(chunk.rstrip('\n')))
            continue
        for para in re.split(r'\n\s*\n', chunk.strip()):
            items = re.split(r'^- ', para, flags=re.M)
            if items[0].strip():
                out.append('.PP\n' + inline(' '.join(items[0].split())))
            for item in items[1:]:
                out.append('.IP \\(bu 2\n' + inline(' '.join(item.split())))
    return '\n'.join(out)


def first_para(text):
    """Blocks that follow a .TP tag or a heading: no .PP before the first one."""
    return re.sub(r'\A\.PP\n', '', blocks(text)).replace('.PP\n', '.IP\n')


def title(name, section, version):
    return (f'.\\" SPDX-License-Identifier: Apache-2.0\n.\\" Made by tools/mkman.py\n'
            f'.TH {name.upper()} {section} "" "penstock {version}" "penstock manual"\n')


def section(name, body):
    body = re.sub(r'\A\.PP\n', '', body)
    return f'.SH {name.upper()}\n{body}\n'


# ----------------------------------------------------------------------------------------- prose

class Prose:
    """docs/man/NAME.md: {section: text} in order, and {--option: text}."""

    def __init__(self, folder, name):
        self.path = os.path.join(folder, name + '.md')
        self.sections, self.options = {}, {}
        if not os.path.exists(self.path):
            fail(f'{self.path}: is needed')
        with open(self.path, encoding='utf-8') as f:
            text = re.sub(r'<!--.*?-->', '', f.read(), flags=re.S)
        text = re.sub(r'^@include (\S+)$', lambda m: self.shared(folder, m[1]), text, flags=re.M)
        head, *parts = re.split(r'^## (.+)$', text, flags=re.M)
        m = re.match(r'# \S+\(\d\): (.+)$', head.strip())
        if not m:
            fail(f'{self.path}: begins with "# NAME(SECTION): one line"')
        self.summary = m[1]
        for heading, body in zip(parts[::2], parts[1::2]):
            if heading == 'Options':
                intro, *opts = re.split(r'^### --(\S+)$', body, flags=re.M)
                self.options = {n.strip(): t.strip() for n, t in zip(opts[::2], opts[1::2])}
                body = intro
            self.sections[heading] = body.strip()

    def shared(self, folder, name):
        """What several pages have in common."""
        with open(os.path.join(folder, name), encoding='utf-8') as f:
            return f.read()

    def render(self, name, body):
        """A section of prose, with ### as subsections."""
        lead, *subs = re.split(r'^### (.+)$', body, flags=re.M)
        out = blocks(lead) if lead.strip() else ''
        for heading, text in zip(subs[::2], subs[1::2]):
            out += f'\n.SS {esc(heading)}\n' + re.sub(r'\A\.PP\n', '', blocks(text))
        return section(name, out.lstrip('\n'))


# ---------------------------------------------------------------------------------------- man1

def size(text):
    """Bytes as one would type them: 1073741824 is 1G."""
    value, letters = int(text), ['', 'K', 'M', 'G', 'T', 'P', 'E']
    while value and value % 1024 == 0 and len(letters) > 1:
        value //= 1024
        letters.pop(0)
    return f'{value}{letters[0]}'


def value_of(opt):
    if opt['kind'] == 'flag':
        return ''
    if opt['kind'] == 'choice':
        return ' \\fB' + '\\fR|\\fB'.join(esc(c) for c in opt['choices']) + '\\fR'
    value = f'\\fI{esc(opt["meta"])}\\fR' + ('\\&...' if opt['kind'] == 'list' else '')
    alone = opt['kind'] == 'list' and opt['min'] == '0'
    return f' [{value}]' if alone else f' {value}'


def facts(opt):
    """Default and range, from the table."""
    out = []
    if opt['required']:
        out.append('Needed.')
    if opt['default'] is not None:
        out.append(f'Default: {opt["default"]}.')
    if opt['kind'] in ('integer', 'size'):
        show = size if opt['kind'] == 'size' else str
        if int(opt['max']) < 2**63 - 1:
            out.append(f'Range: {show(opt["min"])} to {show(opt["max"])}.')
    if opt['kind'] == 'number' and 'max' in opt:
        out.append(f'Range: {opt["min"]} to {opt["max"]}.')
    if opt['aliases']:
        tools = opt.get('tools', {})
        out.append('Also: ' + ', '.join(f'`--{a}`' + (f' (of {tools[a]})' if a in tools else '') for a in opt['aliases']) + '.')
    return ' '.join(out)


def check_options(cmd, prose):
    """Every option has a paragraph, and every paragraph an option."""
    missing = [o['name'] for o in cmd['options'] if o['name'] not in prose.options]
    extra = set(prose.options) - {o['name'] for o in cmd['options']}
    for name in missing:
        print(f'mkman: {prose.path}: no paragraph "### --{name}"', file=sys.stderr)
    for name in sorted(extra):
        print(f'mkman: {prose.path}: "### --{name}": the command has no such option', file=sys.stderr)
    if missing or extra:
        sys.exit(1)


def option_list(cmd, prose):
    out, group = [], None
    for opt in cmd['options']:
        if opt['group'] != group:
            group = opt['group']
            out.append(f'.SS {esc(group)}')
        letter = f'\\fB\\-{opt["letter"]}\\fR, ' if opt['letter'] else ''
        text = prose.options[opt['name']] + '\n\n' + facts(opt)
        out.append(f'.TP\n{letter}\\fB\\-\\-{esc(opt["name"])}\\fR{value_of(opt)}\n'
                   + first_para(text.strip()))
    return '\n'.join(out)


def page_name(cmd):
    """Of "trace stat": penstock-trace-stat."""
    return 'penstock-' + cmd['name'].replace(' ', '-')


def synopsis(cmd, commands):
    """One line per form: with options, and with a command of its own."""
    usage = ' ' + ' '.join(f'\\fI{esc(w)}\\fR' for w in cmd['usage'].split()) if cmd['usage'] else ''
    name, forms = f'\\fBpenstock {esc(cmd["name"])}\\fR', []
    if cmd['runs']:
        forms.append(f'{name} [\\fIOPTION\\fR]...{usage}')
    for word in completion.subs(cmd, commands):
        forms.append(f'{name} \\fB{esc(word)}\\fR [\\fIOPTION\\fR]...')
    return '\n.PP\n'.join(forms)


def command_page(cmd, commands, folder, version):
    name = page_name(cmd)
    prose = Prose(folder, name)
    check_options(cmd, prose)
    page = title(name, 1, version)
    page += section('Name', fill(f'{name} \\- {esc(cmd["summary"])}'))
    page += section('Synopsis', synopsis(cmd, commands))
    for heading, body in prose.sections.items():
        if heading == 'Options':
            intro = blocks(body) + '\n' if body else ''
            page += section(heading, intro + option_list(cmd, prose))
        else:
            page += prose.render(heading, body)
    if 'Options' not in prose.sections:
        option_list(cmd, prose)  # which says what is missing
    return page


def prose_page(folder, name, sect, version, extra=''):
    """A page that is all prose; "{COMMANDS}" in it is replaced by @extra."""
    prose = Prose(folder, f'{name}.{sect}')
    page = title(name, sect, version) + section('Name', f'{name} \\- {esc(prose.summary)}')
    for heading, body in prose.sections.items():
        page += prose.render(heading, body).replace('{COMMANDS}', extra)
    return page


# ------------------------------------------------------------------------------------------ man3

def comment_text(comment):
    """The words of a C comment; indented lines stay as they are."""
    lines = re.sub(r'^/\*+|\*+/$', '', comment.strip()).split('\n')
    lines[0] = lines[0].lstrip()
    return '\n'.join(re.sub(r'^\s*\* ?', '', line).rstrip() for line in lines).strip('\n')


def comment_roff(comment):
    """Paragraphs of words; what is indented is shown as it is."""
    def kind(line):
        return 'blank' if not line.strip() else 'code' if line[0] in ' \t' else 'text'

    out = []
    for what, lines in itertools.groupby(comment_text(comment).split('\n'), kind):
        text = '\n'.join(lines)
        if what == 'code':
            out.append(display(re.sub(r'@(\w+)', r'\1', text.expandtabs(8))))
        elif what == 'text':
            out.append('.PP\n' + inline(re.sub(r'@(\w+)', r'*\1*', ' '.join(text.split()))))
    return '\n'.join(out)


def header_sections(path):
    """[(heading, [(comment, declaration)])] of a public header; the first has no heading."""
    with open(path, encoding='utf-8') as f:
        text = f.read()
    text = text[text.index('extern "C" {'):].split('\n', 2)[2]
    text = text[:text.rindex('#ifdef __cplusplus')]
    text = re.sub(r'^/\* clang-format o\w+ \*/\n', '', text, flags=re.M)
    parts = re.split(r'^/\* -{3,} *(.*?) \*/$', text, flags=re.M)
    item = re.compile(r'(?P<c>^/\*(?:.|\n)*?\*/)?\n?(?P<d>(?:^(?!/\*|$).*\n)+)?', re.M)
    for heading, body in zip([None] + parts[1::2], parts[::2]):
        found = [(m['c'], m['d']) for m in item.finditer(body) if m['c'] or m['d']]
        yield heading, found


def declaration(text):
    """C as it is shown: without PENSTOCK_API, and with what is aligned behind it moved left."""
    mark = 'PENSTOCK_API '
    return re.sub(f'^{mark}(.*?;)', lambda m: m[1].replace('\n' + ' ' * len(mark), '\n'),
                  text.rstrip().expandtabs(8), flags=re.M | re.S)


def api_page(headers, folder, version):
    prose = Prose(folder, 'penstock.3')
    page = title('penstock', 3, version) + section('Name', f'penstock \\- {esc(prose.summary)}')
    includes = '\n'.join(f'#include <penstock/{os.path.basename(h)}>' for h in headers)
    page += section('Synopsis', display(includes + '\n\ncc ... $(pkg-config --cflags --libs penstock)'))
    last = prose.sections.pop('See also')
    for heading, body in prose.sections.items():
        page += prose.render(heading, body)
    for path in headers:
        for heading, items in header_sections(path):
            name = heading or f'penstock/{os.path.basename(path)}'
            out = []
            for comment, decl in items:
                text = comment_roff(comment) if comment else ''
                shown = display(declaration(decl)) if decl else ''
                out += [shown, text] if shown else [text]
            page += section(esc(name), '\n'.join(t for t in out if t))
    return page + prose.render('See also', last)


def add_python(commands, path):
    """Put the table of a command that is a Python module behind that of the command it belongs to."""
    spec = importlib.util.spec_from_file_location('command', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parent = module.COMMAND['name'].rpartition(' ')[0]
    at = max(i for i, c in enumerate(commands) if (c['name'] + ' ').startswith(parent + ' '))
    commands.insert(at + 1, module.COMMAND)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--options', required=True, help='output of penstock --dump-options')
    parser.add_argument('--python', action='append', default=[], help='module of a command')
    parser.add_argument('--prose', required=True, help='folder of the Markdown files')
    parser.add_argument('--header', required=True, action='append', help='public header')
    parser.add_argument('--out', required=True, help='folder to write to')
    args = parser.parse_args()
    with open(args.options, encoding='utf-8') as f:
        table = json.load(f)
    commands, version = table['commands'], table['version']
    for path in args.python:
        add_python(commands, path)
    listed = '\n'.join(f'.TP\n\\fB{esc(page_name(c))}\\fR(1)\n{esc(c["summary"])}'
                       for c in commands)
    files = {f'man1/{page_name(c)}.1': command_page(c, commands, args.prose, version) for c in commands}
    files['man1/penstock.1'] = prose_page(args.prose, 'penstock', 1, version, listed)
    files['man7/penstock.7'] = prose_page(args.prose, 'penstock', 7, version)
    files['man3/penstock.3'] = api_page(args.header, args.prose, version)
    files.update({'bash/penstock': completion.bash(commands), 'zsh/_penstock': completion.zsh(commands),
                  'fish/penstock.fish': completion.fish(commands)})
    for name, text in files.items():
        path = os.path.join(args.out, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as f:
            f.write(re.sub(r'\n{2,}', '\n', text) if name.startswith('man') else text)


if __name__ == '__main__':
    main()
