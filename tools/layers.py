#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check the #include lines of the tree against the table in docs/architecture.md.

    tools/layers.py [ROOT]

One test case per folder of the table, as TAP.  A folder may include its own headers, those of
the folders on its line, libc's and the kernel's, and the libraries in the last column.  No folder
has more sources than MOST, and no three files define functions of one name.
"""
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
CELL = re.compile(r'`([^`]+)`')
FUNCTION = re.compile(r'^[a-z][\w \t*]*?\b(\w+)\([^;{}]*\)\n\{', re.M)

# Generated, so not in the tree: who owns them.
GENERATED = {'penstock/version.h': 'include/penstock', 'config.h': 'src/engine'}

MOST = 32

# Where a name is looked up, after the folder of the file itself: Meson's include_directories.
SEARCH = ['include', 'src', '.', 'tests']

# What comes with the C library, the kernel and the compiler.
LIBC_FOLDERS = ('sanitizer/', 'sys/', 'linux/', 'asm/', 'bits/', 'arpa/', 'net/', 'netinet/')
LIBC = set('''
aio assert ctype dirent endian err errno fcntl features float fnmatch fts getopt glob
inttypes iso646 langinfo libgen limits locale malloc math mntent poll pthread pwd grp regex sched
search semaphore setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib
string strings stdnoreturn syslog termios threads time uchar ucontext unistd utime wchar wctype
wordexp ftw ifaddrs netdb execinfo error cpuid arm_neon emmintrin immintrin xmmintrin x86intrin
'''.split())


class Layer:
    def __init__(self, folder, may_use, libraries):
        self.folder, self.libraries = folder, libraries
        self.all = may_use == ['everything']
        self.may_use = set(may_use) | {folder}

    def sources(self, root):
        for path, _, names in sorted(os.walk(os.path.join(root, self.folder))):
            for name in sorted(names):
                if name.endswith(('.c', '.h', '.h.in')):
                    yield os.path.relpath(os.path.join(path, name), root)


def read_table(root):
    """The layers of docs/architecture.md, in order."""
    layers = []
    with open(os.path.join(root, 'docs/architecture.md')) as f:
        for line in f:
            cells = [c.strip() for c in line.strip().strip('|').split('|')]
            if len(cells) == 4 and CELL.fullmatch(cells[0]):
                may_use = ['everything'] if cells[2] == 'everything' else CELL.findall(cells[2])
                layers.append(Layer(CELL.fullmatch(cells[0])[1], may_use, CELL.findall(cells[3])))
    return layers


def resolve(root, source, name):
    """The file of the tree that an #include means, relative to the root; None: not ours."""
    if name in GENERATED:
        return GENERATED[name] + '/' + os.path.basename(name)
    for folder in [os.path.dirname(source)] + SEARCH:
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(os.path.join(root, path)):
            return path
    return None


def is_libc(name):
    return name.startswith(LIBC_FOLDERS) or (name.endswith('.h') and name[:-2] in LIBC)


def include_error(root, layer, layers, source, quote, name):
    """What is wrong with one #include, or None."""
    target = resolve(root, source, name)
    if target is None:
        if quote == '"':
            return f'"{name}" is not in the tree'
        if is_libc(name) or name in layer.libraries:
            return None
        return f'<{name}> is not a library this folder may use'
    owners = [other.folder for other in layers if target.startswith(other.folder + '/')]
    if not owners:
        return f'"{name}" is in {os.path.dirname(target)}, which is not in the table'
    if layer.all or owners[0] in layer.may_use:
        return None
    return f'"{name}" is in {owners[0]}, which this folder may not use'


def check(root, layer, layers):
    for source in layer.sources(root):
        with open(os.path.join(root, source)) as f:
            text = f.read()
        text = re.sub(r'/\*.*?\*/', lambda m: re.sub('[^\n]', ' ', m[0]), text, flags=re.S)
        for m in INCLUDE.finditer(text):
            what = include_error(root, layer, layers, source, m[1], m[2])
            if what:
                yield f'{source}:{text.count(chr(10), 0, m.start(1)) + 1}: {what}'


def unlisted(root, layers):
    """C files of the tree that belong to no layer."""
    for top in ('include', 'src', 'load', 'cli', 'python', 'examples'):
        for path, _, names in os.walk(os.path.join(root, top)):
            folder = os.path.relpath(path, root)
            if any(n.endswith(('.c', '.h')) for n in names) and \
               not any((folder + '/').startswith(layer.folder + '/') for layer in layers):
                yield f'{folder} is not in the table of docs/architecture.md'


def large_folders(root):
    """Folders with more sources than can be seen at once."""
    for top in ('src', 'load', 'cli', 'python'):
        for path, _, names in os.walk(os.path.join(root, top)):
            nr = sum(name.endswith('.c') for name in names)
            if nr > MOST:
                yield f'{os.path.relpath(path, root)} has {nr} sources'


def repeated_functions(root):
    """Names of functions that neither grep nor perf tells apart."""
    files = {}
    for top in ('src', 'load', 'cli', 'python'):
        for path, _, names in sorted(os.walk(os.path.join(root, top))):
            for name in (n for n in sorted(names) if n.endswith('.c')):
                source = os.path.relpath(os.path.join(path, name), root)
                with open(os.path.join(root, source)) as f:
                    for function in set(FUNCTION.findall(f.read())):
                        files.setdefault(function, []).append(source)
    for function, where in sorted(files.items()):
        if len(where) > 2:
            yield f'{function}() is in {", ".join(where)}'


def order(layers):
    """A folder uses only what stands above it."""
    seen = set()
    for layer in layers:
        for other in sorted(layer.may_use - {layer.folder, 'everything'} - seen):
            yield f'{layer.folder} uses {other}, which does not stand above it'
        seen.add(layer.folder)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), '..')
    layers = read_table(root)
    cases = [(f'{layer.folder} includes only what it may', list(check(root, layer, layers)))
             for layer in layers]
    cases.append(('every folder with C files is in the table', list(unlisted(root, layers))))
    cases.append(('the table goes downwards', list(order(layers))))
    cases.append((f'no folder has more than {MOST} sources', list(large_folders(root))))
    cases.append(('no three files define functions of one name', list(repeated_functions(root))))
    print(f'1..{len(cases)}')
    for i, (name, wrong) in enumerate(cases, 1):
        print(f'{"not ok" if wrong else "ok"} {i} - {name}')
        for line in wrong:
            print(f'# {line}')
    return 1 if any(wrong for _, wrong in cases) or not layers else 0


if __name__ == '__main__':
    sys.exit(main())
