"""What faces.py compares; a process that only saves it needs no TensorFlow, whose import is dear."""
import numpy as np

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128"]


def element_bytes(dtype, shape):
    """The values of lengths.c: byte k of the array is 17 k, of a bool its lowest bit."""
    bytes_ = np.arange(int(np.prod(shape)) * np.dtype(dtype).itemsize) * 17 % 256
    bytes_ = bytes_ % 2 if dtype == "bool" else bytes_
    return bytes_.astype(np.uint8).view(dtype).reshape(shape)


BY_C = {"dtypes/" + name: element_bytes(name, (3, 2)) for name in DTYPES}
BY_C |= {"u": np.array([1, 2, -0.5, -0.5]), "history": np.array([0, 7, 14])}
WORDS_OF_C = [b"one", b"two"]

BY_PYTHON = {"dtypes/" + name: element_bytes(name, (3, 2)) for name in DTYPES}
BY_PYTHON |= {"turned": element_bytes("float64", (4, 3)), "halo": element_bytes("int32", (5, 2)),
              "sliced": element_bytes("float32", (3, 5)), "step": np.array(12), "rate": np.array(0.1)}
WORDS_OF_PYTHON = [b"one", "zwölf".encode(), b""]
