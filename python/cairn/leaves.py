"""The values that a state may have besides numbers, texts and arrays; and errors about values."""

import json
import os

import numpy as np

from . import dtypes, strangers
from .errors import made


def _refused(problem, reason, way_out, key="", code="invalid_argument"):
    error = made(f"{problem} ({reason}). {way_out}", code)
    error.code, error.problem = code, problem
    error.reason, error.way_out = reason, way_out
    error.rank, error.tensor, error.path = None, key, ""
    return error


def _error(key, reason, way_out):
    return _refused(f"'{key}' cannot be saved or restored", reason, way_out, key)


def _dims(shape):
    """A shape, which may be a single number, as a tuple for the library."""
    return (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)


def refuse_to_pickle(what, reason, way_out):
    """A __reduce__ method for objects that cannot be sent to another process."""
    def reduce(self):
        raise _refused(f"{what} cannot be copied or pickled", reason, way_out)

    return reduce


def _brief(value):
    """A short text for a repr; dtype and shape for an array."""
    if isinstance(value, (list, tuple)) and len(value) <= 8:
        return f"[{', '.join(map(_brief, value))}]" if isinstance(value, list) else repr(value)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None and not isinstance(value, Part):
        return f"<{dtype} {tuple(shape)}>"
    return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)


class Part:
    """A value that a state may have in place of an array."""

    def __repr__(self):
        said = ", ".join(f"{name}={_brief(value)}" for name, value in vars(self).items())
        return f"cairn.{type(self).__name__.lower()}({said})"


class Slice(Part):
    """A slice of a global tensor: see cairn.slice."""

    def __init__(self, array, shape=None, start=None, storage="automatic"):
        if (shape is None) != (start is None):
            raise _error("slice", "shape and start belong together", "Give both, or none.")
        self.array, self.shape, self.start, self.storage = array, shape, start, storage


class Patches(Part):
    """Several slices of one tensor: see cairn.patches."""

    def __init__(self, parts, storage="automatic"):
        self.parts, self.storage = list(parts), storage


class Nothing(Part):
    """No part of a tensor on this rank: see cairn.nothing."""

    def __init__(self, dtype, shape):
        self.dtype, self.shape = np.dtype(dtype), shape


class Sparse(Part):
    """A tensor with gaps: see cairn.sparse."""

    def __init__(self, value, fill, keep=False):
        self.value, self.fill, self.keep = value, fill, keep


class Ragged(Part):
    """Rows, any number on each rank: see cairn.ragged."""

    def __init__(self, array, deal=None):
        self.array, self.deal = array, deal


class Resizable(Part):
    """A value whose length the checkpoint decides: see cairn.resizable."""

    def __init__(self, value):
        self.value = value


class Indexed(Part):
    """Rows by global id: see cairn.indexed."""

    def __init__(self, array, ids, first=0, rows=-1, ids_key=""):
        self.array, self.ids, self.first, self.rows, self.ids_key = array, ids, first, rows, ids_key


class Private(Part):
    """A value that belongs to one rank: see cairn.private."""

    def __init__(self, array, optional=False):
        self.array, self.optional = array, optional


def json_of(name, said):
    """The JSON text of an attribute; raises, with the name, if it has none."""
    try:
        text = json.dumps(said, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"attribute {name!r} is not JSON: {error}") from None
    if "\\ud" in text and _half(json.dumps(said, ensure_ascii=False), "strict"):
        raise ValueError(f"attribute {name!r} is not JSON: it has half a character")
    return text


def _half(text, errors="surrogateescape"):
    """The part of a text that no file can have, in the words of an error; None if there is none."""
    try:
        text.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        return f"half a character: {ascii(text[error.start])}"
    return None


def require_whole(what, text):
    """Raises if a name or path cannot be encoded, since the library needs its bytes."""
    half = isinstance(text, str) and _half(text)
    if half:
        raise _refused(f"{what} {ascii(text)} cannot be used", f"it has {half}", "Give a text without it.")


class Described(Part):
    """A value and its description: see cairn.described."""

    def __init__(self, value, units="", dimensions=(), coordinates=(), **attributes):
        for text in (units, *dimensions, *coordinates, *attributes):
            require_whole("the description", text)
        self.value, self.units = value, units
        self.dimensions, self.coordinates = list(dimensions), list(coordinates)
        self.attributes = {name: json_of(name, said) for name, said in attributes.items()}


def slice(array, shape=None, start=None, *, storage="automatic"):
    """This rank's slice of a tensor of which all ranks have parts.

    array    the slice's elements; a view with halos cut off needs no copy: u[1:-1, 1:-1]
    shape    of the whole tensor
    start    where the slice begins in the tensor
    storage  "automatic", "sliced" or "dense"

    >>> import numpy as np, cairn
    >>> state = {"u": cairn.slice(np.zeros((2, 3)), shape=(4, 3), start=(2, 0))}
    """
    return Slice(array, shape, start, storage)


def patches(parts, *, storage="automatic"):
    """Several slices of one tensor, each as cairn.slice gives it."""
    return Patches(parts, storage)


def nothing(dtype, shape):
    """This rank has no part of the tensor. To leave the key out means the same."""
    return Nothing(dtype, shape)


def sparse(value, fill, *, keep=False):
    """A tensor with parts that no rank holds, which read as `fill`.

    value  cairn.slice, cairn.patches or cairn.nothing
    keep   a restore leaves memory of such parts as it is; else it becomes `fill`

    >>> import cairn, numpy as np, tempfile
    >>> with cairn.CheckpointManager(tempfile.mkdtemp()) as manager:
    ...     half = cairn.slice(np.ones(2), shape=(4,), start=(1,))
    ...     prefix = manager.save(1, {"u": cairn.sparse(half, -1.0)})
    >>> cairn.open(prefix)["u"][...]
    array([-1.,  1.,  1., -1.])
    """
    return Sparse(value, fill, keep)


def ragged(array, *, deal=None):
    """This rank's rows of a tensor; each rank may have any number. A restore deals all rows evenly,
    or gives a rank deal(total, rank, ranks) rows, and puts a new array into `.array`.

    >>> import cairn, numpy as np, tempfile
    >>> state = {"particles": cairn.ragged(np.arange(6.0).reshape(3, 2))}
    >>> new = {"particles": cairn.ragged(np.zeros((0, 2)))}
    >>> with cairn.CheckpointManager(tempfile.mkdtemp()) as manager:
    ...     prefix = manager.save(1, state)
    ...     report = manager.restore_latest(new)
    >>> new["particles"].array.shape
    (3, 2)
    """
    return Ragged(array, deal)


def resizable(value):
    """Rows, or a list of texts, that are the same on all ranks. A restore puts a new array or list of the
    stored length into `.value`."""
    return Resizable(value)


def indexed(array, ids, *, first=0, rows=-1, ids_key=""):
    """Rows by global id: array[i] is the row ids[i]. A restore fills array with the rows of the present
    ids.

    first    the id of the tensor's row 0
    rows     the number of rows on all ranks together; -1: as many as ids
    ids_key  ids may have gaps, and are stored under this key
    """
    return Indexed(array, ids, first, rows, ids_key)


def private(array, *, optional=False):
    """An array of this rank alone, restored on the same number of ranks. On another number that is an
    error or, if optional, the array is left as it is."""
    return Private(array, optional)


def described(value, *, units="", dimensions=(), coordinates=(), **attributes):
    """A value with its units, the names of its dimensions, and attributes (any JSON).

    >>> import numpy as np, cairn
    >>> state = {"u": cairn.described(np.zeros(3), units="m/s", dimensions=["x"], order=2)}
    """
    return Described(value, units, dimensions, coordinates, **attributes)


def is_texts(value):
    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(one, (str, bytes)) for one in value)
    )


def as_bytes(key, text):
    if isinstance(text, bytes):
        return text
    half = _half(text)
    if half:
        raise _error(key, f"it has {half}", "Give bytes, or a text without it.")
    return text.encode("utf-8", "surrogateescape")


def as_array(key, value):
    """An array of a number; other values are returned unchanged."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not -(2**63) <= value < 2**64:
            raise _error(key, "it needs more than 64 bits", "Save it as a text.")
        return np.array(value, np.int64 if value < 2**63 else np.uint64)
    return np.array(value) if isinstance(value, (bool, float, complex, np.generic)) else value


def path_of(value, what):
    """A path as a text, also of os.PathLike."""
    try:
        path = os.fsdecode(value)
    except TypeError:
        raise _refused(f"{what} cannot be used", f"it is a {type(value).__name__}",
                       "Give a path.") from None
    require_whole(what, path)
    if "\0" in path:
        raise _refused(f"{what} cannot be used", "it has a NUL, where a path ends", "Give a path.")
    return path


class Parts:
    """Adds values of these classes to a native state, `native`."""

    def _raw(self, key, array):
        """The array for the library, and the dimension that it has more. _note_dtype of the subclass gets the
        name of a dtype that checkpoints lack."""
        dtype = getattr(array, "dtype", None)
        name = dtypes.lacking(dtype) if isinstance(dtype, np.dtype) else None
        if not self._note_dtype(key, dtype, name) or not isinstance(array, np.ndarray):
            return array, ()
        return self._bytes_of(array), dtypes.more_of(name)

    def _raw_part(self, key, array, shape, start):
        raw, more = self._raw(key, array)
        if not more or shape is None:
            return raw, shape, start
        return raw, (*_dims(shape), *more), (*_dims(start), 0)

    def _raw_nothing(self, key, dtype, shape):
        name = dtypes.lacking(dtype)
        if not self._note_dtype(key, dtype, name):
            return dtype, shape
        return np.dtype(np.uint8), (*_dims(shape), *dtypes.more_of(name))

    def _add_part(self, key, value):
        """Adds a value. Returns the rows if a restore makes them anew, else None."""
        if isinstance(value, Nothing):
            self.native.add_nothing(key, *self._raw_nothing(key, value.dtype, value.shape))
        elif isinstance(value, Patches):
            parts = [self._raw_part(key, part.array, part.shape, part.start) for part in value.parts]
            if not parts:
                raise _error(key, "it has no patch", "Give cairn.nothing(dtype, shape).")
            self.native.add(key, parts, value.storage)
        elif isinstance(value, Sparse):
            self._add_sparse(key, value)
        elif isinstance(value, Ragged):
            return self.native.add_rows(key, self._raw(key, value.array)[0], False, value.deal, value)
        elif isinstance(value, Resizable):
            return self.native.add_rows(key, self._raw(key, value.value)[0], True, None, value)
        elif isinstance(value, Indexed):
            self.native.add_indexed(
                key, self._raw(key, value.array)[0], value.ids, value.first, value.rows, value.ids_key
            )
        elif isinstance(value, Private):
            self.native.add_private(key, self._raw(key, value.array)[0], value.optional)
        elif isinstance(value, Slice):
            part = self._raw_part(key, value.array, value.shape, value.start)
            self.native.add(key, [part], value.storage)
        elif len(getattr(value, "addressable_shards", ())) > 1:
            raise _error(key, "it is an array of JAX on several devices", "Save it with cairn.jax.Manager.")
        elif isinstance(value, np.ndarray) or hasattr(value, "__dlpack__"):
            self.native.add(key, [(self._raw(key, value)[0], None, None)], "automatic")
        else:
            raise _error(key, *strangers.refusal(value, "Give a numpy array, an object with __dlpack__, a number, a "
                                                 "text or a dict of these."))
        return None

    def _add_sparse(self, key, value):
        parts = getattr(value.value, "parts", [value.value])
        if isinstance(value.value, Nothing):
            parts, dtype, shape = [], value.value.dtype, value.value.shape
        elif parts and all(isinstance(one, Slice) for one in parts):
            dtype = shape = None
        else:
            raise _error(key, "it has no shape", "Give cairn.slice, cairn.patches or cairn.nothing.")
        slices = [(one.array, one.shape, one.start) for one in parts]
        self.native.add_sparse(key, slices, dtype, shape, np.array(value.fill), value.keep)
