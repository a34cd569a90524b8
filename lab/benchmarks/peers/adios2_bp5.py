"""ADIOS2's BP5 engine, from builds without MPI: each rank writes a BP5 folder of its own, so nothing
is gathered; a folder is synced here after it is closed."""
import os
import sys

import server
from adios2 import bindings


class Peer:
    def __init__(self, folder, rank, ranks, tensors):
        self.folder, self.rank, self.tensors = folder, rank, tensors
        self.adios = bindings.ADIOS()
        self.io = self.adios.DeclareIO("checkpoint")
        self.io.SetEngine("BP5")
        self.variables = {name: self.io.DefineVariable(name, tensor, list(tensor.shape), [0], list(tensor.shape), True)
                          for name, tensor in tensors.items()}

    def path(self, place):
        return os.path.join(self.folder, place, f"rank-{self.rank}.bp")

    def write(self, place):
        engine = self.io.Open(self.path(place), bindings.Mode.Write)
        engine.BeginStep()
        for name, tensor in self.tensors.items():
            engine.Put(self.variables[name], tensor, bindings.Mode.Deferred)
        engine.EndStep()
        engine.Close()
        server.sync_tree(self.path(place))
        server.sync(os.path.join(self.folder, place))

    def write_new(self): self.write("new")
    def write_same(self): self.write("same")

    def read(self):
        io = self.adios.DeclareIO(f"read {os.urandom(8).hex()}")
        io.SetEngine("BP5")
        engine = io.Open(self.path("same"), bindings.Mode.Read)
        engine.BeginStep()
        for name, tensor in self.tensors.items():
            engine.Get(io.InquireVariable(name), tensor, bindings.Mode.Deferred)
        engine.PerformGets()
        engine.EndStep()
        engine.Close()


if __name__ == "__main__" and "--probe" not in sys.argv:
    what = "ADIOS2 BP5 a rank, with fsync"
    server.main(Peer, [
        ("save, new files", what, "new", ["fresh"], ["write_new"], []),
        ("save, steady", what + ", same folder", "same", [], ["write_same"], []),
        ("restore, N to N", "ADIOS2 BP5 a rank", "same", ["write_same", "cold"], ["read"], [])])
