"""Single bundles, written by one process and without a manager."""

from . import _cairn
from .leaves import Slice, as_array, as_bytes, is_texts, path_of, refuse_to_pickle, require_whole

__all__ = ["BundleWriter", "merge"]


class BundleWriter:
    """Writes one bundle, PREFIX.index and a data file: a checkpoint that every reader opens.

    prefix  its directory must exist; an existing checkpoint is an error (already_exists)

    Nothing is visible before finish(), which a `with` block calls; a block that ends by an exception
    leaves nothing.

    >>> import cairn, numpy, os, tempfile
    >>> prefix = os.path.join(tempfile.mkdtemp(), "table")
    >>> with cairn.BundleWriter(prefix) as writer:
    ...     writer.add("u", numpy.arange(6.0).reshape(2, 3).T)
    ...     writer.add("names", ["a", "b"])
    >>> cairn.open(prefix)["u"][1]
    array([1., 4.])
    """

    def __init__(self, prefix):
        self.prefix = path_of(prefix, "the prefix")
        self._native = _cairn.BundleWriter(self.prefix)

    __reduce__ = refuse_to_pickle("a BundleWriter", "it writes a file", "Make one where it is used.")

    def __repr__(self):
        return f"<cairn.BundleWriter {self.prefix!r}>"

    def add(self, key, value):
        """Adds a tensor: an array of any strides, an object with __dlpack__ in host memory, a number, a
        text or a list of texts; or cairn.slice(array, shape, start): other bundles may have the other
        slices. The value is written before this returns."""
        require_whole("the key", key)
        if isinstance(value, (str, bytes)):
            self._native.add_strings(key, [as_bytes(key, value)], True)
        elif is_texts(value):
            self._native.add_strings(key, [as_bytes(key, one) for one in value], False)
        elif isinstance(value, Slice):
            self._native.add(key, value.array, value.shape, value.start)
        else:
            self._native.add(key, as_array(key, value), None, None)

    def finish(self):
        """Makes the bundle durable and visible. Nothing can be added afterwards."""
        self._native.finish()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.finish()
        self._native.discard()


def merge(prefixes, destination, *, remove_inputs=False, allow_missing=False, overwrite=False):
    """Makes one checkpoint out of several: entries are joined, and data files are linked if possible, else
    copied. A crash at any instant leaves the inputs or the whole result. One process calls it."""
    _cairn.merge([path_of(one, "a prefix") for one in prefixes],
                 path_of(destination, "the destination"), remove_inputs, allow_missing, overwrite)
