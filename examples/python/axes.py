"""A checkpoint as an xarray.Dataset that reads what is computed with: python axes.py PREFIX|DIRECTORY

Dimensions and units are those that the program gave (cairn.described); coordinates are the tensors of
one dimension with the name of that dimension. In a bundle or in HDF5, without MPI.
"""

import sys

import cairn
import numpy as np
import xarray as xr
from xarray.core import indexing


class Lazy(xr.backends.BackendArray):
    """A tensor, of which xarray reads only parts."""

    def __init__(self, tensor):
        self.tensor, self.shape, self.dtype = tensor, tensor.shape, np.dtype(tensor.dtype)

    def __getitem__(self, key):
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.BASIC, lambda index: self.tensor[index]
        )


def open_axes(path):
    """The numeric tensors of the checkpoint; dimensions without a name are called KEY_0, KEY_1,
    …"""
    checkpoint = cairn.open(path)
    variables = {}
    for key, tensor in checkpoint.items():
        if tensor.dtype_name == "string":
            continue
        names = tensor.dimensions or [f"{key}_{d}" for d in range(tensor.ndim)]
        about = dict(tensor.attributes, **({"units": tensor.units} if tensor.units else {}))
        variables[key] = xr.Variable(names, indexing.LazilyIndexedArray(Lazy(tensor)), about)
    attributes = dict(checkpoint.attributes, step=checkpoint.step)
    return xr.Dataset(variables, attrs=attributes)


if __name__ == "__main__":
    data = open_axes(sys.argv[1])
    print(data)
    for name, one in data.data_vars.items():
        if one.ndim > 0:
            middle = one.isel({d: one.sizes[d] // 2 for d in one.dims[1:]})  # reads only one line
            print(f"{name}: middle line from {float(middle.min())} to {float(middle.max())}")
