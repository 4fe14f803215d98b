# SPDX-License-Identifier: Apache-2.0
"""Settings of a handle from a file: what `penstock tune --output` writes and DeepSpeed reads."""
import json
import os
from collections.abc import Mapping
from typing import Any

# The members of "aio", old names among them, and what Handle() calls them.
_NAMES = {
    'block_size': 'block',
    'queue_depth': 'depth',
    'intra_op_parallelism': 'threads',
    'num_threads': 'threads',
    'thread_count': 'threads',
    'single_submit': 'single_submit',
    'overlap_events': 'overlap',
    'use_gds': 'engine',
    'engine': 'engine',  # ours; DeepSpeed does not look at it
}
_FLAGS = ('single_submit', 'overlap_events', 'use_gds')
_WORDS = {'true': True, 'false': False}  # ds_nvme_tune writes these as text


def _load(config: Any) -> Any:
    if isinstance(config, Mapping):
        return config
    if not isinstance(config, (str, bytes, os.PathLike)):
        raise TypeError(f'config: {config!r} is neither a path nor a dict')
    with open(config, encoding='utf-8') as f:
        try:
            return json.load(f)
        except ValueError as why:
            raise ValueError(f'config: {os.fspath(config)!r} is not JSON: {why}') from why


def _flag(name: str, value: Any) -> bool:
    value = _WORDS.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise ValueError(f'config: {name}: {value!r} is neither true nor false')
    return value


def options(config: Any) -> dict[str, Any]:
    """Keyword arguments of Handle(); what is not said is not in it."""
    loaded = _load(config)
    aio = loaded.get('aio', loaded) if isinstance(loaded, Mapping) else loaded
    if not isinstance(aio, Mapping):
        raise ValueError('config: has no object "aio"')
    found: dict[str, Any] = {}
    for name, value in aio.items():
        if name not in _NAMES:
            raise ValueError(f'config: {name!r} is none of {", ".join(_NAMES)}')
        if name in _FLAGS:
            value = _flag(name, value)
        if name == 'use_gds':
            if not value:
                continue
            value = 'cufile'
        found[_NAMES[name]] = value
    return found
