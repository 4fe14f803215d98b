# SPDX-License-Identifier: Apache-2.0
import logging

logger = logging.getLogger('DeepSpeed')
