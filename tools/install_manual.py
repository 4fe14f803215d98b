#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Install what tools/mkman.py made; called by `meson install`.

    install_manual.py MANUAL MANDIR DATADIR
"""
import glob
import os
import shutil
import sys

COMPLETION = {'bash': 'bash-completion/completions', 'zsh': 'zsh/site-functions',
              'fish': 'fish/vendor_completions.d'}


def main():
    manual, mandir, datadir = sys.argv[1:4]
    # With DESTDIR in front; an absolute MANDIR or DATADIR has no prefix before it.
    prefix = os.environ['MESON_INSTALL_DESTDIR_PREFIX']
    destdir = os.environ.get('DESTDIR', '')
    for path in sorted(glob.glob(f'{manual}/*/*')):
        kind = os.path.basename(os.path.dirname(path))
        base, sub = (datadir, COMPLETION[kind]) if kind in COMPLETION else (mandir, kind)
        folder = os.path.join(destdir + base if os.path.isabs(base) else os.path.join(prefix, base), sub)
        print(f'Installing {os.path.relpath(path)} to {folder}')
        os.makedirs(folder, exist_ok=True)
        shutil.copyfile(path, os.path.join(folder, os.path.basename(path)))


if __name__ == '__main__':
    main()
