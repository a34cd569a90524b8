"""The tensors of tests/support/tensors.txt, which says what they are and which rank holds what of
them."""

import cairn
import numpy as np
from tensor_values import Values


class Table(Values):
    def state(self, comm, step):
        """What a rank gives to a save."""
        return {key: self._held(number, comm, step) for number, (key, *_) in enumerate(self.lines)}

    def _held(self, number, comm, step):
        _, kind, dtype, shape = self.lines[number]
        whole, r, n = self.values(number, step), comm.rank, comm.size
        if kind == "strings":
            return whole
        if kind == "whole":
            return whole if shape else whole.item()
        if kind in ("rows", "columns"):
            return _block(whole, 0 if kind == "rows" else len(shape) - 1, r, n)
        if kind == "last":
            return cairn.slice(whole, shape, (0,) * len(shape)) if r == n - 1 else cairn.nothing(dtype, shape)
        if kind == "turns":
            return _patches(whole, range(r, shape[0], n))
        if kind == "sparse":
            return cairn.sparse(_patches(whole, range(2 * r, shape[0], 2 * n)), -1)
        if kind == "ragged":
            return cairn.ragged(whole[shape[0] * r // n : shape[0] * (r + 1) // n])
        if kind == "indexed":
            ids = np.arange(r, shape[0], n)[::-1]
            return cairn.indexed(whole[ids], ids)
        return cairn.resizable(whole)

    def wanted(self, comm):
        """What a rank gives to a restore."""
        return {key: self._wanted(number, comm) for number, (key, *_) in enumerate(self.lines)}

    def _wanted(self, number, comm):
        _, kind, dtype, shape = self.lines[number]
        if kind == "strings":
            return [""] * shape[0] if shape else ""
        if not shape:
            return 0
        none = np.zeros(shape, dtype)
        if kind in ("ragged", "resizable"):
            return getattr(cairn, kind)(none[:0])
        if kind == "indexed":
            ids = np.arange(shape[0] * comm.rank // comm.size, shape[0] * (comm.rank + 1) // comm.size)
            return cairn.indexed(none[ids], ids)
        block = _block(none, 0 if kind == "columns" else len(shape) - 1, comm.rank, comm.size)
        return cairn.sparse(block, -1) if kind == "sparse" else block

    def check(self, state, comm, step):
        for number, (key, kind, dtype, shape) in enumerate(self.lines):
            right, got = self.values(number, step), state[key]
            if kind in ("strings", "whole") and not (kind == "whole" and shape):
                assert got == right, (key, got, right)
                continue
            if kind == "ragged":
                before = comm.exscan(len(got.array)) if comm.rank else (comm.exscan(len(got.array)), 0)[1]
                right, got = right[before : before + len(got.array)], got.array
                assert comm.allreduce(len(got)) == shape[0], key
            elif kind == "resizable":
                got = got.value
            elif kind == "indexed":
                right, got = right[got.ids], got.array
            else:
                part = got.value if kind == "sparse" else got
                box = tuple(slice(at, at + size) for at, size in zip(part.start, part.array.shape))
                right, got = right[box], part.array
            assert got.dtype == right.dtype and got.shape == right.shape, (key, got.shape, right.shape)
            assert got.tobytes() == np.ascontiguousarray(right).tobytes(), (key, got, right)

    def look(self, opened, step):
        """Checks an opened checkpoint, without ranks."""
        assert set(opened) == {key for key, *_ in self.lines}, list(opened)
        for number, (key, _, dtype, shape) in enumerate(self.lines):
            right, tensor = self.values(number, step), opened[key]
            assert (tensor.dtype_name, tensor.shape) == (dtype, shape), tensor
            got = tensor[...] if shape else tensor[()]
            if dtype == "string":
                got = [one.decode() for one in got] if shape else got.decode()
                assert got == right, (key, got, right)
            else:
                assert np.asarray(got).tobytes() == np.asarray(right).tobytes(), (key, got, right)


def _block(whole, dimension, r, n):
    """A rank's block of a dimension, in memory with a halo."""
    size = whole.shape[dimension]
    low, high = size * r // n, size * (r + 1) // n
    part = whole[(slice(None),) * dimension + (slice(low, high),)]
    memory = np.full([extent + 2 for extent in part.shape], 77, whole.dtype)
    inside = memory[(slice(1, -1),) * whole.ndim]
    inside[...] = part
    start = [0] * whole.ndim
    start[dimension] = low
    return cairn.slice(inside, whole.shape, start)


def _patches(whole, rows):
    parts = [cairn.slice(whole[row : row + 1], whole.shape, (row, *[0] * (whole.ndim - 1)))
             for row in rows]
    return cairn.patches(parts) if parts else cairn.nothing(whole.dtype, whole.shape)
