"""The values of the tensors of tests/support/tensors.txt, for programs without package cairn,
too."""

import numpy as np


class Values:
    def __init__(self, path):
        with open(path) as table:
            lines = [line.split() for line in table if line.strip() and not line.startswith("#")]
        self.lines = [(key, kind, dtype, tuple(map(int, shape.split(","))) if shape != "-" else ())
                      for key, kind, dtype, shape in lines]

    def values(self, number, step):
        """All of a tensor; a list for texts, or a single text."""
        key, kind, dtype, shape = self.lines[number]
        count = int(np.prod(shape, dtype=int))
        v = (7 * np.arange(count) + 13 * step + number) % 101
        if dtype == "string":
            texts = [chr(ord("a") + one % 26) * (one % 7) for one in v.tolist()]
            return texts if shape else texts[0]
        v = v % 2 if dtype == "bool" else v + 1j * (v + 1) if dtype.startswith("complex") else v
        v = v.astype(dtype).reshape(shape)
        if kind == "sparse":
            v[1::2] = -1
        return v
