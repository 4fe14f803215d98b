# SPDX-License-Identifier: Apache-2.0
"""What GDSBuilder().load() returns."""
from ._handle import gds_handle as gds_handle
