"""Trains the model of model.py with DistributedDataParallel. The checkpoint is written while the next
forward and backward passes read the parameters; the optimizer's step waits for what is left of it.

torchrun --nproc-per-node 2 ddp.py run
"""

import sys

import torch
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import cairn.torch
from model import LANES, Loader, Model


def main():
    directory, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)  # weights: the same on all ranks
    model = DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = Loader("/usr/share/common-licenses", rank, ranks)
    torch.manual_seed(100 + rank)  # dropout
    state = {"model": model.module, "optimizer": optimizer, "data": loader.cursor,
             "random": cairn.torch.RandomStates(), "step": 0}

    with cairn.torch.Manager(directory, max_to_keep=3) as manager:
        manager.restore_latest(state)
        while state["step"] < steps:
            text, following = loader.next()
            loss = functional.cross_entropy(model(text).flatten(0, 1), following.flatten())
            loss.backward()
            optimizer.step()  # the last save's release
            optimizer.zero_grad()
            loader.cursor.done(LANES)
            state["step"] += 1
            if rank == 0:
                print("step", state["step"], "loss", loss.item().hex(), flush=True)
            if state["step"] % 4 == 0:
                manager.save_async(state["step"], state, until="optimizer.step")
        manager.wait()
    dist.destroy_process_group()


main()
