# SPDX-License-Identifier: Apache-2.0
"""python -m penstock: the command."""
from penstock._command import main

if __name__ == '__main__':
    main()
