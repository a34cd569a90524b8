"""Reads checkpoints of any origin: Cairn's and TensorFlow's, in bundles and HDF5."""

import collections.abc
import json
import operator

import numpy as np

from . import _cairn, dtypes, forms
from .leaves import _refused, path_of, refuse_to_pickle


def _said(attributes):
    """The application's attributes, read from JSON; without those that Cairn uses itself."""
    return {name: json.loads(text) for name, text in attributes.items()
            if name not in (forms.NAME, forms.TIES, forms.CLASS, dtypes.NAME)}


class Tensor:
    """One tensor of a checkpoint. Indexing reads the elements, and checks them."""

    def __init__(self, reader, key):
        self._reader, self.key = reader, key
        self.shape = reader.shape(key)
        units, dimensions, coordinates, attributes = reader.description(key)
        self.units, self.dimensions, self.coordinates = units, dimensions, coordinates
        self.attributes = _said(attributes)
        #: The name of a dtype that checkpoints lack, whose bytes are stored; and the bytes of an element.
        self._lacking = _lacking(attributes, reader.dtype_name(key), self.shape)
        self._bytes = () if self._lacking is None else dtypes.more_of(self._lacking)
        self.shape = self.shape[:len(self.shape) - len(self._bytes)]
        self.dimensions = self.dimensions[:len(self.shape)]

    @property
    def dtype(self):
        """The dtype of NumPy; object for texts."""
        if self._lacking is not None:
            return _numpy_dtype(self._lacking)
        return self._reader.dtype(self.key)

    @property
    def dtype_name(self):
        """TensorFlow's name of the dtype, which NumPy may lack; or the name of one that TensorFlow lacks."""
        return self._lacking or self._reader.dtype_name(self.key)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def size(self):
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def problem(self):
        """Why it cannot be read; "" if no reason is known."""
        return self._reader.problem(self.key)

    @property
    def slices(self):
        """Stored slices: (start, extent, file, offset, bytes). If the bytes are encoded, the number of
        the codec and the number of bytes of the elements follow."""
        more = len(self._bytes)
        return [(start[:len(start) - more], extent[:len(extent) - more], *where)
                for start, extent, *where in self._reader.slices(self.key)]

    def __len__(self):
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __repr__(self):
        return f"<cairn.Tensor {self.key!r} {self.dtype_name} {self.shape}>"

    __reduce__ = refuse_to_pickle("a tensor of a checkpoint", "it is read from a file that is open here",
                                  "Give tensor[...], or open the checkpoint where it is used.")

    def __array__(self, dtype=None, copy=None):
        if copy is False:
            raise ValueError("a tensor of a checkpoint is read, which is a copy")
        array = np.asarray(self[...])
        return array if dtype is None else array.astype(dtype)

    def __getitem__(self, index):
        """NumPy's basic indexing: integers, slices, "..." and None. Only stored slices that have some of
        the elements are read. A bool makes a new dimension of one or no index, as in NumPy."""
        entries = index if isinstance(index, tuple) else (index,)
        if any(isinstance(one, (bool, np.bool_)) for one in entries):
            whole = np.empty(self.shape, self.dtype)
            whole[...] = self[...]
            return whole[index]
        box, rest = _box_of(index, self.shape)
        if self.dtype_name == "string":
            texts = np.array(self._reader.read_strings(self.key) + [None], dtype=object)[:-1]
            whole = texts.reshape(self.shape)
            return whole[index] if self.shape or index != () else whole[()]
        start, extent = box
        array = self._reader.read(self.key, [*start, *(0 for _ in self._bytes)], [*extent, *self._bytes])
        if self._lacking is not None:
            array = dtypes.of_bytes(array, self.dtype)
        result = array[rest]
        return result[()] if isinstance(result, np.ndarray) and result.ndim == 0 else result


def _lacking(attributes, dtype, shape):
    try:
        return dtypes.read(attributes.get(dtypes.NAME), dtype, shape)
    except ValueError:
        return None  # a later version wrote it: its bytes can still be read


def _numpy_dtype(name):
    try:
        return dtypes.of_name(name)
    except TypeError:
        raise _refused(f"NumPy has no dtype {name} here", "its bytes are stored",
                       "Install the package ml_dtypes, which has small ones, or read it on a machine like "
                       "that which saved.") from None


def _box_of(index, shape):
    """The box that has the elements of the index, and the rest of the index inside this box."""
    entries = index if isinstance(index, tuple) else (index,)
    taken = sum(1 for one in entries if one is not None and one is not Ellipsis)
    if sum(1 for one in entries if one is Ellipsis) > 1:
        raise IndexError("an index has at most one '...'")
    if taken > len(shape):
        raise IndexError(f"{taken} indices for a tensor of {len(shape)} dimensions")
    if not any(one is Ellipsis for one in entries):
        entries += (Ellipsis,)
    start, extent, rest = [], [], []

    def whole():
        start.append(0)
        extent.append(shape[len(start) - 1])
        rest.append(slice(None))

    for one in entries:
        if one is None:
            rest.append(None)
        elif one is Ellipsis:
            for _ in range(len(shape) - taken):
                whole()
        elif isinstance(one, slice):
            picked = range(*one.indices(shape[len(start)]))
            low = min(picked[0], picked[-1]) if len(picked) else 0
            high = max(picked[0], picked[-1]) + 1 if len(picked) else 0
            start.append(low)
            extent.append(high - low)
            rest.append(slice(None, None, picked.step) if len(picked) else slice(0, 0))
        else:
            try:
                at = operator.index(one)
            except TypeError:
                raise IndexError(
                    "a tensor of a checkpoint takes integers, slices, '...' and None; "
                    "for more, read it first: tensor[...]"
                ) from None
            size = shape[len(start)]
            if not -size <= at < size:
                raise IndexError(f"index {at} is outside of {size} elements")
            start.append(at % size)
            extent.append(1)
            rest.append(0)
    return (start, extent), tuple(rest)


class Checkpoint(collections.abc.Mapping):
    """The tensors of a checkpoint, by key. Reading needs no MPI, and changes nothing."""

    def __init__(self, path):
        self._reader = _cairn.Reader(path_of(path, "the path"))
        self.prefix, self.format = self._reader.prefix(), self._reader.format()
        self._keys = dict.fromkeys(self._reader.keys())
        #: Cairn's metadata of its own checkpoints, as a dict; None for those of other programs.
        self.meta = self._reader.meta()
        if self.meta:
            self.meta["attributes"] = _said(self.meta["attributes"])

    @property
    def attributes(self):
        """The application's attributes of the whole checkpoint."""
        return self.meta["attributes"] if self.meta else {}

    @property
    def step(self):
        return self.meta["step"] if self.meta else None

    def __getitem__(self, key):
        if key not in self._keys:
            raise KeyError(key)
        return Tensor(self._reader, key)

    def __contains__(self, key):
        return key in self._keys

    def __iter__(self):
        return iter(self._keys)

    def __len__(self):
        return len(self._keys)

    __reduce__ = refuse_to_pickle("an open checkpoint", "its files are open here",
                                  "Give its prefix, and cairn.open(prefix) where it is used.")

    def __repr__(self):
        return f"<cairn.Checkpoint {self.prefix!r}: {len(self)} tensors>"


def open(path):
    """Opens a checkpoint: PREFIX, PREFIX.index, PREFIX.h5, or a directory for its newest one.

    >>> import cairn, numpy, tempfile
    >>> directory = tempfile.mkdtemp()
    >>> with cairn.CheckpointManager(directory) as manager:
    ...     prefix = manager.save(1, {"u": numpy.arange(12.0).reshape(3, 4)})
    >>> cairn.open(prefix)["u"][1:, ::2]
    array([[ 4.,  6.],
           [ 8., 10.]])
    """
    return Checkpoint(path)


def steps(directory):
    """Steps of the checkpoints in a directory, ascending. Neither owns nor changes the directory."""
    found = _cairn.list_checkpoints(path_of(directory, "the directory"))
    return sorted({step for step, _ in found if step is not None})


def checkpoints(directory):
    """Prefixes of all checkpoints in a directory, for cairn.open."""
    return [prefix for _, prefix in _cairn.list_checkpoints(path_of(directory, "the directory"))]
