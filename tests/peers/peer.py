# SPDX-License-Identifier: Apache-2.0
"""For the programs in this folder: what they need, or a skip in one line."""
import importlib
import json
import os
import re
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


def documented(engine):
    """The configuration on the page of this engine."""
    with open(os.path.join(sys.argv[1], 'docs', f'{engine}.md'), encoding='utf-8') as f:
        found = re.search(r"(?:```json\n|config ')(\{.*?\})(?:\n```|')", f.read(), re.S)
    return json.loads(found[1])
