"""Trains the model of model.py with FSDP2 and tensor parallelism, on any mesh, and goes on from
where it was when it is started again.

torchrun --nproc-per-node 4 train.py run --mesh 2x2
mpirun -n 3 python train.py run --mesh 1x3
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import parallelize_module
from torch.nn import functional

import cairn.torch
from model import LANES, SHARED, Loader, Model


def begin():
    """torchrun tells a process its rank in these variables; mpirun and srun use other names."""
    for ours, theirs in [("RANK", ("OMPI_COMM_WORLD_RANK", "SLURM_PROCID")),
                         ("WORLD_SIZE", ("OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"))]:
        found = [os.environ[name] for name in theirs if name in os.environ]
        os.environ.setdefault(ours, found[0] if found else {"RANK": "0", "WORLD_SIZE": "1"}[ours])
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29511")
    # torchrun gives restarted workers the store of the earlier ones, which still has their
    # addresses; a prefix for each restart keeps them apart.
    store, rank, ranks = next(dist.rendezvous("env://"))
    store = dist.PrefixStore(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--mesh", default="", help="data ranks x tensor ranks (default: all x 1)")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=50, help="steps from save to save")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--text", default="/usr/share/common-licenses")
    arguments = parser.parse_args()

    begin()
    torch.set_num_threads(1)
    shape = arguments.mesh or f"{dist.get_world_size()}x1"
    mesh = init_device_mesh("cpu", tuple(map(int, shape.split("x"))), mesh_dim_names=("data", "tensor"))
    data_rank = mesh["data"].get_local_rank()

    torch.manual_seed(1)  # weights: the same on all ranks
    model = Model(arguments.dropout)
    for block in model.blocks:
        parallelize_module(block, mesh["tensor"], SHARED)
    for part in (*model.blocks, model):
        fully_shard(part, mesh=mesh["data"])
        # gloo gives the sum of gradients where their average is asked for. Gradients and the
        # optimizer's moments would then be larger with more data ranks, so this makes the division
        # explicit.
        part.set_force_sum_reduction_for_comms(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    loader = Loader(arguments.text, data_rank, mesh["data"].size())
    torch.manual_seed(100 + data_rank)  # dropout: the same on the tensor ranks of a data rank

    state = {
        "model": model,
        "optimizer": optimizer,
        "schedule": schedule,
        "data": loader.cursor,
        "random": cairn.torch.RandomStates(),
        "mesh": shape,
        "step": 0,
    }
    manager = cairn.torch.Manager(
        arguments.directory, max_to_keep=3, stop=True, when={"interval": {"steps": arguments.every}}
    )
    if manager.restore_latest(state) and dist.get_rank() == 0:
        print(f"going on from step {state['step']}, saved on mesh {state['mesh']}", flush=True)
    if state["mesh"] != shape:
        # Each data rank draws random numbers for dropout. The ranks may be others than those that
        # saved, so they get new seeds.
        torch.manual_seed(1000 * state["step"] + data_rank)
        state["mesh"] = shape

    while state["step"] < arguments.steps:
        text, following = loader.next()
        loss = functional.cross_entropy(model(text).flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        loader.cursor.done(LANES)
        state["step"] += 1

        total = loss.detach().double()
        dist.all_reduce(total, group=mesh["data"].get_group())
        if dist.get_rank() == 0:
            print("step", state["step"], "loss", (total.item() / mesh["data"].size()).hex(), flush=True)
        if manager.should_save(state["step"]):
            manager.save_async(state["step"], state, until="optimizer.step")
        if reason := manager.should_stop():
            manager.wait()
            if all(one["step"] != state["step"] for one in manager.steps()):
                manager.save(state["step"], state)
            if dist.get_rank() == 0:
                print(f"stopped after step {state['step']}: {reason[0]}", flush=True)
            manager.close()
            # torchrun would take any other status for a failure and start the workers again.
            sys.exit(0 if dist.is_torchelastic_launched() else reason[1])

    manager.wait()
    manager.close()
    dist.destroy_process_group()


main()
