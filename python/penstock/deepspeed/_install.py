# SPDX-License-Identifier: Apache-2.0
"""install() and uninstall(): this process, and through the environment the ones it starts.

A child process that is a new Python (spawn, forkserver, subprocess) imports _site when it starts.
The wheel has a .pth file for that.  Without it, for example with an in-place build, a folder with a
sitecustomize module goes to the front of PYTHONPATH.
"""
import os
import site
import sys
import threading

from . import _site

HERE = os.path.dirname(os.path.abspath(__file__))
HOOK = os.path.join(HERE, '_hook')
PTH = 'penstock-deepspeed.pth'

_lock = threading.Lock()
_switch_before: str | None = None


def has_pth() -> bool:
    """Does Python read our .pth file when it starts?"""
    here = os.path.dirname(os.path.dirname(HERE))
    folders = site.getsitepackages()
    if site.ENABLE_USER_SITE:
        folders.append(site.getusersitepackages())
    return os.path.exists(os.path.join(here, PTH)) and any(
        os.path.exists(folder) and os.path.samefile(folder, here) for folder in folders)


def python_path() -> list[str]:
    """The entries of PYTHONPATH, without ours."""
    value = os.environ.get('PYTHONPATH', '')
    return [entry for entry in value.split(os.pathsep) if entry != HOOK] if value else []


def set_environment() -> None:
    global _switch_before
    if not _site.wanted():
        _switch_before = os.environ.get(_site.SWITCH)
        os.environ[_site.SWITCH] = '1'
    if not has_pth():
        os.environ['PYTHONPATH'] = os.pathsep.join([HOOK, *python_path()])


def reset_environment() -> None:
    if _switch_before is None:
        os.environ.pop(_site.SWITCH, None)
    else:
        os.environ[_site.SWITCH] = _switch_before
    if HOOK in os.environ.get('PYTHONPATH', '').split(os.pathsep):
        rest = python_path()
        if rest:
            os.environ['PYTHONPATH'] = os.pathsep.join(rest)
        else:
            del os.environ['PYTHONPATH']


def install() -> None:
    """Let DeepSpeed use penstock, whether it is imported already, later, or in a child process.

    Child processes of a forkserver that runs already are not reached: call it before.
    """
    with _lock:
        _site.add()
        if any(_site.watched(name) for name in list(sys.modules)):
            from . import _patch

            _patch.apply_all()
        set_environment()


def uninstall() -> None:
    """Give DeepSpeed its own operators back, here and in processes started from now on."""
    with _lock:
        _site.remove()
        patched = sys.modules.get(f'{__package__}._patch')
        if patched is not None:
            patched.revert()
        reset_environment()


def installed() -> bool:
    return _site.finder in sys.meta_path
