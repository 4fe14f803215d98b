# SPDX-License-Identifier: Apache-2.0
"""penstock.WeightWindow and penstock.torch.offload_modules with today's torch."""
from peer import need

need('torch')

import torch_offload  # noqa: F401  all of its cases
