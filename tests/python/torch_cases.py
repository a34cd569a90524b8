"""Shared by the tests of cairn.torch: a manager in a directory of its own, and values as bits."""

import random
import tempfile
import unittest

import torch_jobs  # first: it sets what torch reads when it is imported

import numpy as np
import torch
from torch.distributed.tensor import DTensor

import cairn
import cairn.torch


def plain(value):
    """Values with their classes, and the order of keys; the bits of tensors."""
    if isinstance(value, torch.Tensor):
        value = value.full_tensor() if isinstance(value, DTensor) else value
        flat = value.detach().cpu().resolve_conj().contiguous().reshape(-1)
        return "tensor", str(value.dtype), tuple(value.shape), flat.view(torch.uint8).numpy().tobytes()
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__, str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value).__name__, [(type(key).__name__, key, plain(one)) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(one) for one in value]
    return type(value).__name__, repr(value)


def sorted_plain(state):
    return {name: plain(one) for name, one in sorted(state.items())}


def random_states():
    return plain([torch.get_rng_state(), np.random.get_state(), random.getstate()])


class Loads:
    """An object with a state dict."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


class Case(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.place = made.name
        self.directory = f"{made.name}/run"

    def manager(self, **options):
        manager = cairn.torch.Manager(self.directory, **options)
        self.addCleanup(manager.close)
        return manager

    def refuses(self, code, words, call, *given, **named):
        with self.assertRaises(cairn.Error) as caught:
            call(*given, **named)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertIn(words, str(caught.exception))
        return caught.exception
