# SPDX-License-Identifier: Apache-2.0
"""sluice.WeightStream and sluice.torch.stream_modules with today's torch."""
from peer import need

need('torch')

import torch_stream  # noqa: F401  all of its cases
