# SPDX-License-Identifier: Apache-2.0
"""Run by every Python that starts with this folder in PYTHONPATH: see ../_install.py.

That may be another Python than ours, so nothing here may fail.  There is one sitecustomize per
Python; the one that this folder hides is run afterwards.
"""
import importlib.util
import os
import sys
from importlib.machinery import PathFinder


def start(package_root: str) -> None:
    if os.environ.get('PENSTOCK_DEEPSPEED', '') in ('', '0'):
        return
    try:
        import penstock.deepspeed._site  # noqa: F401
        return
    except Exception:
        sys.path.append(package_root)
    try:
        import penstock.deepspeed._site  # noqa: F401,F811
    except Exception:
        sys.path.remove(package_root)


def is_hook(folder: str) -> bool:
    """This folder under any spelling, or that of another copy: one would run the other for ever."""
    return os.path.realpath(folder).endswith(os.path.join(os.sep, 'penstock', 'deepspeed', '_hook'))


def chain() -> None:
    rest = [entry for entry in sys.path if not is_hook(entry)]
    spec = PathFinder.find_spec('sitecustomize', rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules['sitecustomize'] = module
    spec.loader.exec_module(module)


def main() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    start(os.path.dirname(os.path.dirname(os.path.dirname(here))))
    chain()


main()
