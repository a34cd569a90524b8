"""What a state is made of: a dict, nested or not, becomes tensors under keys."""

import collections.abc
import json

import numpy as np

from ._cairn import Error, State

_REFUSED = "invalid_argument"


def _error(key, reason, way_out):
    error = Error(f"'{key}' cannot be saved or restored ({reason}) {way_out}")
    error.code, error.problem = _REFUSED, f"'{key}' cannot be saved or restored"
    error.reason, error.way_out = reason, way_out
    error.rank, error.tensor, error.path = None, key, ""
    return error


class Slice:
    """A slice of a global tensor: see cairn.slice."""

    def __init__(self, array, shape=None, start=None, storage="automatic"):
        if (shape is None) != (start is None):
            raise _error("slice", "shape and start belong together", "Give both, or none.")
        self.array, self.shape, self.start, self.storage = array, shape, start, storage


class Patches:
    """Several slices of one tensor: see cairn.patches."""

    def __init__(self, parts, storage="automatic"):
        self.parts, self.storage = list(parts), storage


class Nothing:
    """No part of a tensor on this rank: see cairn.nothing."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = np.dtype(dtype), shape


class Described:
    """A value, and what is said of it: see cairn.described."""

    def __init__(self, value, units="", dimensions=(), coordinates=(), **attributes):
        self.value, self.units = value, units
        self.dimensions, self.coordinates = list(dimensions), list(coordinates)
        self.attributes = {name: json.dumps(said) for name, said in attributes.items()}


def slice(array, shape=None, start=None, *, storage="automatic"):
    """This rank's slice of a tensor that all ranks have parts of.

    array    what lies in it; a view with halos cut off needs no copy: u[1:-1, 1:-1]
    shape    of the whole tensor
    start    where the slice begins in it
    storage  "automatic", "sliced" or "dense"

    >>> import numpy as np, cairn
    >>> state = {"u": cairn.slice(np.zeros((2, 3)), shape=(4, 3), start=(2, 0))}
    """
    return Slice(array, shape, start, storage)


def patches(parts, *, storage="automatic"):
    """Several slices of one tensor, each as cairn.slice gives it."""
    return Patches(parts, storage)


def nothing(dtype, shape):
    """No part of this tensor on this rank. To leave the key out means the same."""
    return Nothing(dtype, shape)


def described(value, *, units="", dimensions=(), coordinates=(), **attributes):
    """A value with its units, the names of its dimensions, and attributes (any JSON).

    >>> import numpy as np, cairn
    >>> state = {"u": cairn.described(np.zeros(3), units="m/s", dimensions=["x"], order=2)}
    """
    return Described(value, units, dimensions, coordinates, **attributes)


def _is_texts(value):
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(one, (str, bytes)) for one in value)
    )


def _as_bytes(text):
    return text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text


def _like(text, old):
    return text.decode("utf-8", "surrogateescape") if isinstance(old, str) else text


class Binding:
    """A native state that refers to the values of a dict, and puts back what cannot be filled in
    place: numbers, and texts."""

    def __init__(self, values, restoring):
        self.native = State()
        self._restoring = restoring
        self._put_back = []
        self._texts = 0
        if not isinstance(values, collections.abc.Mapping):
            raise _error("state", f"it is a {type(values).__name__}", "Give a dict.")
        self._add_all("", values, values.items())

    def put_back(self):
        for one in self._put_back:
            one()

    def _add_all(self, path, container, items):
        for name, value in items:
            if not isinstance(name, (str, int)):
                raise _error(path or "state", f"it has the key {name!r}", "Keys are texts.")
            self._add(f"{path}/{name}" if path else str(name), container, name, value)

    def _add(self, key, container, name, value):
        if isinstance(value, Described):
            self._add(key, container, name, value.value)
            self.native.describe(
                key, value.units, value.dimensions, value.coordinates, value.attributes
            )
        elif isinstance(value, collections.abc.Mapping):
            self._add_all(key, value, value.items())
        elif isinstance(value, (str, bytes)) or _is_texts(value):
            self._add_texts(key, container, name, value)
        elif isinstance(value, (list, tuple)):
            self._add_all(key, value, enumerate(value))
        elif isinstance(value, Nothing):
            self.native.add_nothing(key, value.dtype, value.shape)
        elif isinstance(value, Patches):
            parts = [(part.array, part.shape, part.start) for part in value.parts]
            if not parts:
                raise _error(key, "it has no patch", "Give cairn.nothing(dtype, shape).")
            self.native.add(key, parts, value.storage)
        elif isinstance(value, Slice):
            self.native.add(key, [(value.array, value.shape, value.start)], value.storage)
        elif isinstance(value, (bool, int, float, complex, np.generic)):
            self._add_number(key, container, name, value)
        else:
            self.native.add(key, [(value, None, None)], "automatic")

    def _require_changeable(self, key, container):
        if self._restoring and not isinstance(container, collections.abc.MutableMapping | list):
            raise _error(key, f"a {type(container).__name__} cannot be changed",
                         "Restore into a dict or a list.")

    def _add_number(self, key, container, name, value):
        self._require_changeable(key, container)
        if isinstance(value, int) and not isinstance(value, bool):
            if not -(2**63) <= value < 2**64:
                raise _error(key, "it needs more than 64 bits", "Save it as a text.")
            held = np.array(value, np.int64 if value < 2**63 else np.uint64)
        else:
            held = np.array(value)
        self.native.add(key, [(held, None, None)], "automatic")

        def put_back():
            container[name] = held[()] if isinstance(value, np.generic) else held.item()

        self._put_back.append(put_back)

    def _add_texts(self, key, container, name, value):
        scalar = isinstance(value, (str, bytes))
        if scalar or isinstance(value, tuple):
            self._require_changeable(key, container)
        texts = [value] if scalar else value
        self.native.add_strings(key, [_as_bytes(one) for one in texts], scalar)
        number, self._texts = self._texts, self._texts + 1

        def put_back():
            new = self.native.strings(number)
            if scalar:
                container[name] = _like(new[0], value)
                return
            new = [_like(text, texts[0]) for text in new]
            if isinstance(value, tuple):
                container[name] = tuple(new)
            else:
                value[:] = new

        self._put_back.append(put_back)
