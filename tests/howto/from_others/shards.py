"""What orbax_manager.py computes: an array that all processes of the job share, by its rows. A number
depends on no other, so that the array does not depend on the number of processes."""

import hashlib
import os
import signal
import socket

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from mpi4py import MPI

STEPS = 20
_die_after = int(os.environ.get("CAIRN_DIE_AFTER", "-1"))  # so many steps, then it is killed
_made = 0


def begin():
    comm = MPI.COMM_WORLD
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = comm.bcast(free.getsockname()[1])
    jax.distributed.initialize(f"127.0.0.1:{port}", comm.size, comm.rank)


def make():
    where = NamedSharding(Mesh(np.array(jax.devices()), ("rows",)), PartitionSpec("rows"))
    whole = np.arange(48, dtype=np.float32).reshape(12, 4)
    return {"u": jax.make_array_from_callback(whole.shape, where, lambda index: whole[index])}


@jax.jit
def _advanced(u):
    return jnp.sin(u) + u / 2


def advance(train):
    global _made
    train = {"u": _advanced(train["u"])}
    train["u"].block_until_ready()
    _made += 1
    if _made == _die_after:
        os.kill(os.getpid(), signal.SIGKILL)
    return train


def tell(train, step):
    """A digest of all rows, and how many steps this process has made."""
    rows = [one.data for one in train["u"].addressable_shards]
    rows = MPI.COMM_WORLD.gather([np.asarray(one) for one in rows])
    if MPI.COMM_WORLD.rank == 0:
        digest = hashlib.sha256(np.concatenate(sum(rows, [])).tobytes()).hexdigest()
        print(f"{_made} steps made, step {step}, digest {digest[:16]}", flush=True)
