# SPDX-License-Identifier: Apache-2.0
"""A host without a GPU; with DS_ACCELERATOR=cuda the builders are those of one with."""
import os


class Accelerator:
    def __init__(self, name):
        self._name = name

    def device_name(self, index=None):
        return 'cpu'

    def is_available(self):
        return True

    def pin_memory(self, tensor, align_bytes=1):
        return tensor

    def ByteTensor(self, values):
        import torch

        return torch.tensor(values, dtype=torch.uint8)

    def get_op_builder(self, class_name):
        import importlib

        where = 'deepspeed.ops.op_builder' + ('.cpu' if self._name == 'cpu' else '')
        module = importlib.import_module(where)
        return getattr(module, class_name, None) or module.NotImplementedBuilder

    def create_op_builder(self, class_name):
        return self.get_op_builder(class_name)()


_accelerator = Accelerator(os.environ.get('DS_ACCELERATOR', 'cpu'))


def get_accelerator():
    return _accelerator
