"""With JAX: a call takes the arrays that it makes, the largest one once more, and at most 96 MiB."""

import os
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import cairn.jax
from case import Case
from peaks import LARGE_BYTES, PROMISED, Peaks

ARRAYS = 4


class Peak(Peaks, Case):
    def test_of_large_arrays(self):
        sharding = NamedSharding(Mesh(np.array(jax.devices()), ("data",)), P("data"))
        largest = LARGE_BYTES // ARRAYS
        state = {f"w{i}": jax.device_put(jnp.ones(largest // 4), sharding) for i in range(ARRAYS)}
        jax.block_until_ready(state)
        manager = cairn.jax.Manager(self.directory, max_to_keep=2)
        promised = PROMISED + largest

        def save_async(step):
            manager.save_async(step, state)
            manager.wait()

        def restore():
            made = dict.fromkeys(state)
            manager.restore(4, made)
            return jax.block_until_ready(made)

        self.hold("the first save", 0, lambda: manager.save(1, state), promised)
        self.hold("another save", 0, lambda: manager.save(2, state), promised)
        # The memory pool, which is made once.
        self.hold("the first save_async", LARGE_BYTES, lambda: save_async(3), promised)
        self.hold("another save_async", 0, lambda: save_async(4), promised)
        made = self.hold("restore", LARGE_BYTES, restore, promised)
        self.assertEqual(float(made["w3"][-1]), 1)


if __name__ == "__main__":
    unittest.main()
