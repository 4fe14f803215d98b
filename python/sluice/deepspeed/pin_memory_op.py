# SPDX-License-Identifier: Apache-2.0
"""What PinMemoryBuilder().load() returns."""
from ._pin import pin_handle as pin_handle

__file__ = ''  # DeepSpeed hands any other name to dlopen()
