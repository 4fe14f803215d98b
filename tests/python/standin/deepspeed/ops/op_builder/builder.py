# SPDX-License-Identifier: Apache-2.0
import importlib
import sys


class OpBuilder:
    _loaded_ops = {}
    probed = []  # names of operators whose libraries were looked for

    def __init__(self, name):
        self.name = name
        self.error_log = None

    def absolute_name(self):
        raise NotImplementedError

    def is_compatible(self, verbose=False):
        OpBuilder.probed.append(self.name)
        self.error_log = 'libaio-dev is missing'
        if verbose:
            print(f'[WARNING] {self.name}: {self.error_log}')
        return False

    def load(self, verbose=False):
        if self.name in OpBuilder._loaded_ops:
            return OpBuilder._loaded_ops[self.name]
        info = sys.modules.get('deepspeed.git_version_info')
        if info is not None and info.installed_ops.get(self.name):
            module = importlib.import_module(self.absolute_name())
        else:
            module = self.jit_load(verbose)
        OpBuilder._loaded_ops[self.name] = module
        return module

    def jit_load(self, verbose=False):
        if not self.is_compatible(verbose):
            raise RuntimeError(f'Unable to JIT load the {self.name} op due to it not being compatible')
        raise RuntimeError(f'Unable to JIT load the {self.name} op: no compiler here')
