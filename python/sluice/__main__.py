# SPDX-License-Identifier: Apache-2.0
"""python -m sluice: the command."""
from sluice._command import main

if __name__ == '__main__':
    main()
