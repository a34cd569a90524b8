"""What a checkpoint holds: python look.py PREFIX|DIRECTORY

Of Cairn or TensorFlow, in a bundle or in HDF5; without MPI. Rows 10 to 20 of what has them.
"""

import sys

import cairn

checkpoint = cairn.open(sys.argv[1])
print(f"{checkpoint.prefix}: {checkpoint.format}, step {checkpoint.step}, {len(checkpoint)} tensors")
for key, tensor in checkpoint.items():
    print(f"  {key}: {tensor.dtype_name} {tensor.shape} {tensor.units}")
    if tensor.ndim > 0 and tensor.shape[0] >= 20 and tensor.dtype_name != "string":
        part = tensor[10:20]  # reads the stored slices that have a part of it, and checks them
        print(f"    rows 10 to 20: from {part.min()} to {part.max()}")
