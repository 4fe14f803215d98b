# SPDX-License-Identifier: Apache-2.0
"""penstock.WeightStream and penstock.torch.stream_modules with today's torch."""
from peer import need

need('torch')

import torch_stream  # noqa: F401  all of its cases
