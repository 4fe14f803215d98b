# SPDX-License-Identifier: Apache-2.0
"""For the programs in this folder: what they need, or a skip in one line."""
import importlib
import sys


def need(*names):
    """The modules; without one of them the program ends."""
    found = []
    for name in names:
        try:
            found.append(importlib.import_module(name))
        except ImportError as error:
            print(f'1..0 # SKIP {error}: make peers')
            sys.exit()
    return found[0] if len(found) == 1 else found
