"""PyTorch's distributed checkpoint over gloo: a file a rank, synced by its writer."""
import os
import sys
import warnings

import server
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp


class Peer:
    def __init__(self, folder, rank, ranks, tensors):
        warnings.filterwarnings("ignore", "Detected an existing checkpoint")
        self.folder = folder
        torch.set_num_threads(1)
        dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=ranks)
        self.state = {f"{name}/{rank}": torch.from_numpy(tensor) for name, tensor in tensors.items()}
        self.saving = None

    def place(self, name):
        return os.path.join(self.folder, name)

    def save(self, name):
        dcp.save(self.state, storage_writer=dcp.FileSystemWriter(self.place(name), sync_files=True, overwrite=True))
        if dist.get_rank() == 0:
            server.sync(self.place(name))

    def save_new(self): self.save("new")
    def save_same(self): self.save("same")

    def begin(self):
        self.saving = dcp.async_save(self.state, storage_writer=dcp.FileSystemWriter(
            self.place("async"), sync_files=True, overwrite=True))

    def finish(self):
        self.saving.result()

    def load(self):
        dcp.load(self.state, checkpoint_id=self.place("same"))


if __name__ == "__main__" and "--probe" not in sys.argv:
    server.main(Peer, [
        ("save, new files", "PyTorch DCP", "new", ["fresh"], ["save_new"], []),
        ("save, steady", "PyTorch DCP, same folder", "same", [], ["save_same"], []),
        ("save_async, blocked", "PyTorch DCP async_save", "async", [], ["begin"], ["finish"]),
        ("restore, N to N", "PyTorch DCP load", "same", ["save_same", "cold"], ["load"], [])])
