# SPDX-License-Identifier: Apache-2.0
"""penstock.deepspeed.install(): DeepSpeed, for which ./standin stands in, uses our operators."""
import contextlib
import glob
import io
import os
import shutil
import subprocess
import sys

import kit
from kit import case, cases, child, child_ok, each, path
from tap import Skip, run

HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN = os.path.join(HERE, 'standin')

try:
    import torch
except ImportError:
    print('1..0 # SKIP no torch')
    raise SystemExit(0)

import penstock.deepspeed
from penstock.deepspeed import AsyncIOBuilder, GDSBuilder, PinMemoryBuilder, _install

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(penstock.__file__)))

# What every piece of code below begins with.
BEGIN = f'import os, sys; sys.path.insert(0, {STANDIN!r}); import penstock.deepspeed\n'

STATE = '''
def ours(module):
    return module.__name__.startswith('penstock.deepspeed.')

def check():
    """Everything that finds an operator finds ours."""
    import deepspeed, deepspeed.ops.op_builder.cpu
    from deepspeed.ops import op_builder
    from deepspeed.ops.op_builder.builder import OpBuilder
    assert deepspeed.ops.__compatible_ops__['async_io'] is True
    assert deepspeed.ops.__compatible_ops__['pin_memory'] is True
    assert deepspeed.ops.__compatible_ops__ is deepspeed.git_version_info.compatible_ops
    for builder in (op_builder.AsyncIOBuilder, op_builder.cpu.AsyncIOBuilder,
                    deepspeed.ops.aio.AsyncIOBuilder, op_builder.GDSBuilder,
                    deepspeed.ops.gds.GDSBuilder, op_builder.PinMemoryBuilder,
                    deepspeed.ops.pin_memory.PinMemoryBuilder,
                    deepspeed.get_accelerator().get_op_builder('AsyncIOBuilder')):
        module = builder().load(verbose=False)
        assert ours(module), module
        assert builder.NAME != 'gds' or hasattr(module, 'gds_handle')
        assert builder.NAME != 'async_io' or hasattr(module, 'aio_handle')
        assert builder.NAME == 'gds' or builder().is_compatible() is True
        assert OpBuilder._loaded_ops[builder.NAME] is module
    assert ours(sys._deepspeed_pin_memory_op_module)
    assert not hasattr(sys._deepspeed_pin_memory_op_module, '__file__')
    return True

def plain():
    """Everything is as DeepSpeed made it."""
    import deepspeed, deepspeed.ops.op_builder.cpu
    from deepspeed.ops import op_builder
    from deepspeed.ops.op_builder.builder import OpBuilder
    assert not any(deepspeed.ops.__compatible_ops__.values())
    assert not hasattr(sys, '_deepspeed_pin_memory_op_module')
    assert not any(ours(m) for m in OpBuilder._loaded_ops.values())
    for builder in (op_builder.AsyncIOBuilder, op_builder.cpu.AsyncIOBuilder, op_builder.GDSBuilder,
                    op_builder.PinMemoryBuilder):
        assert builder().is_compatible() is False
        assert 'is_compatible' not in vars(builder)
        assert vars(builder).get('load', OpBuilder.load).__module__.startswith('deepspeed.')
        try:
            builder().load()
        except RuntimeError as e:
            assert 'Unable to JIT load' in str(e)
        else:
            raise AssertionError('DeepSpeed loads something')
    return True
'''


# ------------------------------------------------------------------ one process

@case
def deepspeed_is_imported_after_install():
    child_ok(BEGIN + STATE + '''
penstock.deepspeed.install()
import deepspeed
assert check()
from deepspeed.ops.op_builder.builder import OpBuilder
assert 'async_io' not in OpBuilder.probed and 'utils' in OpBuilder.probed
''')


@case
def deepspeed_is_imported_before_install():
    child_ok(BEGIN + STATE + '''
import deepspeed
assert plain()
penstock.deepspeed.install()
assert check()
''')


@case
def only_parts_of_deepspeed_are_imported_before_install():
    child_ok(BEGIN + STATE + '''
import deepspeed
for name in [n for n in sys.modules if n.startswith('deepspeed.ops.op_builder.cpu')]:
    del sys.modules[name]
del deepspeed.ops.op_builder.cpu
penstock.deepspeed.install()
assert check()
''')


@case
def uninstall_gives_everything_back():
    child_ok(BEGIN + STATE + '''
import torch
before, path = dict(os.environ), list(sys.meta_path)
for times in range(2):
    penstock.deepspeed.install()
    assert penstock.deepspeed.installed()
    assert check()
    penstock.deepspeed.uninstall()
    assert not penstock.deepspeed.installed()
    import deepspeed
    assert plain()
    assert dict(os.environ) == before and sys.meta_path == path
''')


@case
def install_and_uninstall_may_be_repeated():
    child_ok(BEGIN + STATE + '''
import deepspeed
import torch
before, path = dict(os.environ), list(sys.meta_path)
penstock.deepspeed.uninstall()
assert plain()
for _ in range(3):
    penstock.deepspeed.install()
assert check() and len(sys.meta_path) == len(path) + 1
assert os.environ.get('PYTHONPATH', '').count('_hook') <= 1
for _ in range(3):
    penstock.deepspeed.uninstall()
assert plain() and dict(os.environ) == before and sys.meta_path == path
''')


@case
def uninstall_before_deepspeed_is_imported_leaves_it_alone():
    child_ok(BEGIN + STATE + '''
penstock.deepspeed.install()
penstock.deepspeed.uninstall()
assert plain()
''')


@case
def what_was_loaded_before_comes_back():
    child_ok(BEGIN + STATE + '''
import types, deepspeed
from deepspeed.ops.op_builder.builder import OpBuilder
own, pin = types.ModuleType('own'), types.ModuleType('pin')
OpBuilder._loaded_ops['async_io'], sys._deepspeed_pin_memory_op_module = own, pin
assert deepspeed.ops.aio.AsyncIOBuilder().load() is own
penstock.deepspeed.install()
assert check()
penstock.deepspeed.uninstall()
assert deepspeed.ops.aio.AsyncIOBuilder().load() is own
assert sys._deepspeed_pin_memory_op_module is pin
''')


@case
def operators_that_are_installed_are_replaced():
    child_ok(BEGIN + STATE + '''
import types, deepspeed
deepspeed.git_version_info.installed_ops['async_io'] = True
sys.modules['deepspeed.ops.aio.async_io_op'] = types.ModuleType('theirs')
penstock.deepspeed.install()
assert check()
''')


@case
def without_deepspeed_it_waits():
    child_ok('''
import importlib.machinery as m  # as if there were none, where there is one
find = m.PathFinder.find_spec
m.PathFinder.find_spec = lambda name, *more: None if name == 'deepspeed' else find(name, *more)
import sys, penstock.deepspeed
penstock.deepspeed.install()
assert 'torch' not in sys.modules, 'torch is imported'
try:
    import deepspeed
except ModuleNotFoundError as e:
    assert e.name == 'deepspeed'
else:
    raise AssertionError('there is a DeepSpeed here')
penstock.deepspeed.uninstall()
''')


@case
def a_checkout_has_the_builders_twice():
    twice = path('checkout')
    shutil.copytree(os.path.join(STANDIN, 'deepspeed/ops/op_builder'),
                    os.path.join(twice, 'op_builder'))
    code = BEGIN + STATE + '''
sys.path.insert(0, sys.argv[1])
{}
{}
from op_builder.builder import OpBuilder
for builder in (op_builder.AsyncIOBuilder, op_builder.GDSBuilder, op_builder.PinMemoryBuilder):
    assert builder.__module__.startswith('op_builder.') and ours(builder().load())
    assert ours(OpBuilder._loaded_ops[builder.NAME])
assert check()
penstock.deepspeed.uninstall()
assert 'async_io' not in OpBuilder._loaded_ops
'''
    for order in (('import op_builder', 'penstock.deepspeed.install()'),
                  ('penstock.deepspeed.install()', 'import op_builder')):
        child_ok(code.format(*order), twice)


@case
def deepspeeds_modules_look_as_always():
    child_ok(BEGIN + '''
import importlib, importlib.machinery, inspect
penstock.deepspeed.install()
import deepspeed.ops.op_builder.async_io as module
assert type(module.__loader__) is importlib.machinery.SourceFileLoader
assert type(module.__spec__.loader) is importlib.machinery.SourceFileLoader
assert 'class AsyncIOBuilder' in inspect.getsource(module)
again = importlib.reload(module)
assert again.AsyncIOBuilder().load().__name__ == 'penstock.deepspeed.async_io_op'
import deepspeed
assert type(deepspeed.comm.__loader__) is importlib.machinery.SourceFileLoader
''')


@case
def without_torch_deepspeed_keeps_its_own():
    done = child(BEGIN + '''
sys.modules['torch'] = None
penstock.deepspeed.install()
import deepspeed
assert deepspeed.ops.__compatible_ops__['async_io'] is False
''')
    assert done.returncode == 0, done
    assert done.stderr.count('UserWarning: penstock: DeepSpeed keeps operators') == 1, done


@case
def the_gds_operator_is_for_machines_with_cuda():
    child_ok(BEGIN + STATE + '''
os.environ['DS_ACCELERATOR'] = 'cuda'
import torch, deepspeed
penstock.deepspeed.install()
assert check()
assert deepspeed.ops.__compatible_ops__['gds'] is (torch.cuda.device_count() > 0)
assert deepspeed.ops.gds.GDSBuilder().is_compatible() is (torch.cuda.device_count() > 0)
''')


# ------------------------------------------------------------------ other processes

WORKER = STATE.replace('def ours', 'import os, sys\ndef ours', 1) + '''
def at_work(_):
    return check(), os.getpid()
def left_alone(_):
    return plain(), os.getpid()
'''

MAIN = '''
import multiprocessing, os, sys
import worker
if __name__ == '__main__':
    import penstock.deepspeed
    function = getattr(worker, sys.argv[2])
    penstock.deepspeed.install()
    if sys.argv[2] == 'left_alone':
        penstock.deepspeed.uninstall()
    os.chdir('/')
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        (right, pid), = pool.map(function, [0])
    assert right is True and pid != os.getpid()
'''


def script():
    """A folder with a program that starts processes."""
    folder = path('script')
    os.mkdir(folder)
    for name, text in (('main.py', MAIN), ('worker.py', WORKER)):
        with open(os.path.join(folder, name), 'w') as f:
            f.write(text)
    return folder


def run_script(method, function, python=sys.executable, **env):
    folder = script()
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join([PACKAGE, STANDIN]), **env}
    done = subprocess.run([python, os.path.join(folder, 'main.py'), method, function], env=env,
                          cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


@each(['spawn', 'forkserver', 'fork'])
def processes_do_the_same(method):
    run_script(method, 'at_work')


@each(['spawn', 'forkserver', 'fork'])
def after_uninstall_processes_do_not(method):
    run_script(method, 'left_alone')


@each(['spawn', 'forkserver'])
def a_relative_path_to_the_package_is_no_matter(method):
    folder = path('relative')
    os.mkdir(folder)
    os.symlink(os.path.join(PACKAGE, 'penstock'), os.path.join(folder, 'penstock'))
    program = script()
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(['.', STANDIN])}
    done = subprocess.run([sys.executable, os.path.join(program, 'main.py'), method, 'at_work'],
                          env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    assert done.returncode == 0, done.stdout


@case
def a_started_python_is_light():
    code = BEGIN + '''
import subprocess
penstock.deepspeed.install()
print(subprocess.run([sys.executable, '-c',
    "import sys; print(sorted({'torch', 'numpy', 'deepspeed'} & set(sys.modules)), "
    "'penstock.deepspeed._site' in sys.modules)"],
    check=True, stdout=subprocess.PIPE, text=True).stdout, end='')
'''
    assert child_ok(code) == '[] True\n'


@case
def the_switch_can_be_off():
    hook = os.path.join(os.path.dirname(_install.__file__), '_hook')
    code = "import sys; print('penstock.deepspeed._site' in sys.modules)"
    for value, expected in (('', False), ('0', False), ('1', True), ('yes', True)):
        env = {**os.environ, 'PYTHONPATH': os.pathsep.join([hook, PACKAGE]),
               'PENSTOCK_DEEPSPEED': value}
        out = subprocess.run([sys.executable, '-c', code], env=env, check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        assert out == f'{expected}\n', (value, out)


@case
def a_switch_that_was_off_is_off_again():
    for before in (None, '0', ''):
        code = BEGIN + f'''
before = {before!r}
os.environ.pop('PENSTOCK_DEEPSPEED', None)
if before is not None:
    os.environ['PENSTOCK_DEEPSPEED'] = before
penstock.deepspeed.install()
assert os.environ['PENSTOCK_DEEPSPEED'] == '1'
os.environ['PYTHONPATH'] += ':/added/later'
penstock.deepspeed.uninstall()
assert os.environ.get('PENSTOCK_DEEPSPEED') == before
path = os.environ['PYTHONPATH']
assert path.endswith(':/added/later') and '_hook' not in path
'''
        child_ok(code)


@case
def modules_can_be_inspected_as_torch_does():
    code = BEGIN + '''
import inspect
penstock.deepspeed.install()
import deepspeed
for name, module in sys.modules.copy().items():
    if name.startswith('penstock') and hasattr(module, '__file__'):
        inspect.getfile(module)
'''
    child_ok(code)


# ------------------------------------------------------------------ sitecustomize

def with_sitecustomize(text, code='import sitecustomize; print(sitecustomize.__file__)', value='1'):
    folder = path('site')
    os.mkdir(folder)
    with open(os.path.join(folder, 'sitecustomize.py'), 'w') as f:
        f.write(text)
    hook = os.path.join(os.path.dirname(_install.__file__), '_hook')
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join([hook, folder, PACKAGE]),
           'PENSTOCK_DEEPSPEED': value}
    done = subprocess.run([sys.executable, '-c', code], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    return folder, done


@each(['0', '1'])
def the_users_own_sitecustomize_runs_too_switch(value):
    folder, done = with_sitecustomize("print('mine', __name__)\n", value=value)
    assert done.returncode == 0 and not done.stderr, done
    assert done.stdout == f'mine sitecustomize\n{folder}/sitecustomize.py\n', done.stdout


@case
def the_users_own_sitecustomize_fails_as_always():
    _, done = with_sitecustomize('raise RuntimeError("mine")\n', 'print(1)')
    assert done.returncode == 0 and done.stdout == '1\n', done
    assert 'RuntimeError: mine' in done.stderr, done


@case
def no_other_sitecustomize_is_needed():
    hook = os.path.join(os.path.dirname(_install.__file__), '_hook')
    code = f'''
import importlib.machinery, importlib.util, sys
sys.path[:] = [{hook!r}]
sys.modules.pop('sitecustomize', None)
import sitecustomize
assert sitecustomize.__file__.startswith({hook!r})
'''
    subprocess.run([sys.executable, '-c', code], check=True,
                   env={**os.environ, 'PENSTOCK_DEEPSPEED': '0'})


@each(['link', 'copy', 'with a dot'])
def the_folder_under_two_names_is_run_once(name):
    hook = os.path.join(os.path.dirname(_install.__file__), '_hook')
    other = os.path.join(path('other'), 'penstock', 'deepspeed', '_hook')
    if name == 'copy':
        shutil.copytree(hook, other)
    elif name == 'link':
        os.makedirs(os.path.dirname(other))
        os.symlink(hook, other)
    else:
        other = os.path.join(os.path.dirname(hook), '.', '_hook')
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join([hook, other, PACKAGE]), 'PENSTOCK_DEEPSPEED': '1'}
    code = "import sys; print('penstock.deepspeed._site' in sys.modules)"
    done = subprocess.run([sys.executable, '-c', code], env=env, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and done.stdout == 'True\n' and not done.stderr, done


@case
def a_python_that_cannot_use_penstock_starts_quietly():
    copy = path('copy')
    hook = os.path.join(copy, 'penstock', 'deepspeed', '_hook')
    shutil.copytree(os.path.join(os.path.dirname(_install.__file__), '_hook'), hook)
    env = {**os.environ, 'PYTHONPATH': hook, 'PENSTOCK_DEEPSPEED': '1'}
    code = 'import sys; print(sys.path.count(sys.argv[1]))'
    done = subprocess.run([sys.executable, '-c', code, copy], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0 and done.stdout == '0\n' and not done.stderr, done


# ------------------------------------------------------------------ .pth

PTH = ("import os; os.environ.get('PENSTOCK_DEEPSPEED') and "
       "__import__('penstock.deepspeed._site')\n")


def environment_with_pth():
    """A virtual environment with the package and the .pth file of the wheel."""
    folder = path('venv')
    done = subprocess.run([sys.executable, '-m', 'venv', '--without-pip', '--system-site-packages',
                           '--symlinks', folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True)
    if done.returncode:
        raise Skip('venv', f'no venv: {done.stdout.strip()}')
    site, = glob.glob(f'{folder}/lib/python*/site-packages')
    shutil.copytree(os.path.join(PACKAGE, 'penstock'), os.path.join(site, 'penstock'))
    with open(os.path.join(site, _install.PTH), 'w') as f:
        f.write(PTH)
    return os.path.join(folder, 'bin', 'python3')


@each(['spawn', 'forkserver'])
def with_the_wheel_no_path_is_needed(method):
    python = environment_with_pth()
    with_torch = os.path.dirname(os.path.dirname(torch.__file__))  # when we are in an environment
    run_script(method, 'at_work', python, PYTHONPATH=os.pathsep.join([STANDIN, with_torch]))
    code = '''
import os, penstock.deepspeed
penstock.deepspeed.install()
assert 'PYTHONPATH' not in os.environ and os.environ['PENSTOCK_DEEPSPEED'] == '1'
penstock.deepspeed.uninstall()
'''
    env = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    subprocess.run([python, '-c', code], env=env, check=True)


# ------------------------------------------------------------------ builders and warnings

ROWS = {builder.NAME: (builder, *rest) for builder, *rest in [
    (AsyncIOBuilder, 'DS_BUILD_AIO', 'deepspeed.ops.aio.async_io_op',
     ['aio_handle', 'aio_read', 'aio_write', 'deepspeed_memcpy']),
    (GDSBuilder, 'DS_BUILD_GDS', 'deepspeed.ops.gds.gds_op', ['gds_handle']),
    (PinMemoryBuilder, 'DS_BUILD_PIN_MEMORY',
     'deepspeed.ops.pin_memory.pin_memory_op', ['pin_handle']),
]}


@each(ROWS)
def builders_are_as_the_contract_says(name):
    kind, variable, place, exports = ROWS[name]
    builder = kind()
    assert kind.NAME == builder.name == name and kind.BUILD_VAR == variable
    assert builder.absolute_name() == place
    module = builder.load(verbose=False)
    assert module is builder.load() is kind().load(True)
    assert sorted(n for n in vars(module) if not n.startswith('__')) == exports
    works = kind is not GDSBuilder or torch.cuda.device_count() > 0
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        assert builder.is_compatible() is works and builder.is_compatible(verbose=True) is works
    assert kind().error_log is None if works else 'no CUDA device' in kind().error_log
    assert said.getvalue() == ('' if works else f'[WARNING] {builder.error_log}\n')
    assert issubclass(GDSBuilder, AsyncIOBuilder)


@case
def the_package_has_all_names():
    for name in penstock.deepspeed.__all__:
        assert getattr(penstock.deepspeed, name) is not None
    assert set(penstock.deepspeed.__all__) <= set(dir(penstock.deepspeed))
    kit.raises(AttributeError, getattr, penstock.deepspeed, 'no_such_name')
    assert child_ok("import sys, penstock.deepspeed; print('torch' in sys.modules)") == 'False\n'


@case
def the_first_write_warns_once_through_deepspeeds_logger():
    code = BEGIN + '''
import torch, logging
from penstock.deepspeed import aio_handle
h, t = aio_handle(), torch.zeros(10)
assert h.sync_pwrite(t, sys.argv[1]) == 1  # nothing to warn through yet
lines = []
import deepspeed.utils
class Lines(logging.Handler):
    def emit(self, record):
        lines.append((record.levelname, record.getMessage()))
deepspeed.utils.logger.addHandler(Lines())
assert h.sync_pread(t, sys.argv[1]) == 1 and lines == []
for _ in range(3):
    assert h.async_pwrite(t, sys.argv[1]) == 0 and h.sync_pwrite(t, sys.argv[1]) == 2
(level, text), = lines
assert level == 'WARNING' and 'SSD' in text, lines
'''
    child_ok(code, path())


run(*cases)
