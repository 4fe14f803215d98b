# SPDX-License-Identifier: Apache-2.0
"""The warning DeepSpeed gives at the first write of a process."""
import sys

TEXT = ('Tensors are being written to storage again and again. That wears out SSDs, consumer '
        'drives most of all: watch the drive\'s percentage used (nvme smart-log).')

_given = False


def warn_once() -> None:
    """Through DeepSpeed's own logger, so only where DeepSpeed is loaded."""
    global _given
    if _given:
        return
    logger = getattr(sys.modules.get('deepspeed.utils'), 'logger', None)
    if logger is not None:
        _given = True
        logger.warning(TEXT)
