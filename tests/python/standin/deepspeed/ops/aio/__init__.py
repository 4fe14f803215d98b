# SPDX-License-Identifier: Apache-2.0
from ..op_builder import AsyncIOBuilder
