"""Computes where the part of a DTensor that a rank holds lies in the whole tensor."""

import functools
import itertools

from .. import _cairn
from ..leaves import _error


def boxes_of(key, tensor):
    """The boxes of the tensor that this rank holds, as native TensorBoxes."""
    mesh = tensor.device_mesh
    coordinate = mesh.get_coordinate()
    if coordinate is None:  # the rank is outside of the mesh
        return _cairn.TensorBoxes(tuple(tensor.shape), tuple(tensor._local_tensor.shape), [])
    kinds = []
    for placement in tensor.placements:
        if placement.is_partial():
            raise _error(key, "it is a DTensor of partial sums",
                         "Redistribute it first: tensor.redistribute(placements=[Replicate()]).")
        if placement.is_replicate():
            kinds.append(None)
        else:
            kinds.append((placement.dim, getattr(placement, "split_factor", 1)))
    return _boxes(tuple(tensor.shape), tuple(kinds), tuple(mesh.shape), tuple(coordinate))


@functools.lru_cache(maxsize=4096)
def _boxes(shape, kinds, mesh_shape, coordinate):
    runs = [_runs(d, shape[d], kinds, mesh_shape, coordinate) for d in range(len(shape))]
    local_shape = tuple(sum(size for _, size in one) for one in runs)
    parts = [tuple(zip(*picked)) or ((), (), ())
             for picked in itertools.product(*(_with_places(one) for one in runs))]
    return _cairn.TensorBoxes(shape, local_shape, parts)


def _with_places(runs):
    """(start in the whole, size, start in the local tensor)"""
    at = 0
    for start, size in runs:
        yield start, size, at
        at += size


def _runs(d, size, kinds, mesh_shape, coordinate):
    """[(start, size)] in dimension d, in the order in which the local tensor has them. Mesh dimensions
    cut one after the other; each cuts the parts that the earlier ones have left."""
    runs = [(0, size)] if size > 0 else []
    for kind, parts, at in zip(kinds, mesh_shape, coordinate):
        if kind is None or kind[0] != d:
            continue
        # A strided shard takes one part of each of so many pieces, into which a later mesh dimension has
        # cut the dimension before.
        left = sum(one for _, one in runs)
        runs = [
            run
            for low, high in _pieces(0, left, kind[1])
            for run in _cut(runs, *_pieces(low, high, parts)[at])
        ]
        runs = _joined(runs)
    return runs


def _pieces(low, high, number):
    """Pieces as torch.chunk makes them: all but the last ones have the same size."""
    each = -(-(high - low) // number)
    return [(min(low + i * each, high), min(low + (i + 1) * each, high)) for i in range(number)]


def _cut(runs, low, high):
    at = 0
    for start, size in runs:
        first, last = max(low, at), min(high, at + size)
        if first < last:
            yield start + first - at, last - first
        at += size


def _joined(runs):
    joined = []
    for start, size in runs:
        if joined and sum(joined[-1]) == start:
            joined[-1] = (joined[-1][0], joined[-1][1] + size)
        else:
            joined.append((start, size))
    return joined
