"""Shared by the tests of the Python package."""

import ast
import inspect
import os
import signal
import tempfile
import unittest

import cairn
import numpy as np

# A process that a shell starts in the background ignores interrupts, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)

BUILT = os.environ.get("CAIRN_PYTHON_FORMATS", "bundle,hdf5").split(",")


def bits(array):
    return np.ascontiguousarray(array).tobytes()


def values(dtype, shape, seed=1):
    count = int(np.prod(shape))
    raw = np.random.default_rng(seed).integers(0, 256, count * np.dtype(dtype).itemsize, np.uint8)
    if dtype == "bool":
        raw %= 2
    return raw.view(dtype).reshape(shape)


def _parameters(function):
    given = function.args
    star = [f"*{one.arg}" for one in [given.vararg] if one] + [f"**{one.arg}" for one in [given.kwarg] if one]
    return [one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]] + star


def _differs(where, stub, real):
    """A function's parameters; a function of the extension, which does not tell them, is
    accepted."""
    try:
        there = inspect.signature(real).parameters.values()
    except (TypeError, ValueError):
        return []
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = [marks.get(one.kind, "") + one.name for one in there]
    wanted = _parameters(stub)
    return [] if sorted(names) == sorted(wanted) else [f"{where}: {names}, and the stub has {wanted}"]


def stub_errors(module):
    """The differences between a module and its stub."""
    path = module.__file__.removesuffix(".py") + ".pyi"
    with open(path) as file:
        nodes = {one.name: one for one in ast.parse(file.read()).body
                 if isinstance(one, (ast.ClassDef, ast.FunctionDef))}
    errors = [f"{name} is missing" for name in module.__all__
              if name not in nodes and callable(getattr(module, name))]
    for name, node in nodes.items():
        real = getattr(module, name, None)
        if isinstance(node, ast.FunctionDef):
            errors += [f"{name} is not there"] if real is None else _differs(name, node, real)
        elif real is not None:
            errors += _class_errors(name, node, real)
    return errors


def _class_errors(name, node, real):
    methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    fields = {one.target.id for one in node.body if isinstance(one, ast.AnnAssign)}
    errors = [f"{name}.{one} is not in the stub" for one in vars(real)
              if not one.startswith("_") and one not in methods and one not in fields
              and not any(one in vars(base) for base in real.__bases__)]
    for method, its in methods.items():
        there = inspect.getattr_static(real, method, None)
        if there is None:
            errors.append(f"{name}.{method} is not there")
        elif inspect.isfunction(there):
            errors += _differs(f"{name}.{method}", its, there)
    return errors


class Case(unittest.TestCase):
    def setUp(self):
        self._scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self._scratch.cleanup)
        self.directory = os.path.join(self._scratch.name, "run")

    def manager(self, **options):
        manager = cairn.CheckpointManager(self.directory, **options)
        self.addCleanup(manager.close)
        return manager

    def refuses(self, code, words, call, *given, **named):
        with self.assertRaises(cairn.Error) as caught:
            call(*given, **named)
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        self.assertIn(words, str(caught.exception))
        return caught.exception
