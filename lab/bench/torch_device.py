"""How long saves of tensors on a GPU block, beside bare copies of them to pinned host memory.

    python lab/bench/torch_device.py [--mib N] [--rounds N] [--directory DIR]

PYTHONPATH=BUILD/python. One process holds a model of 64 tensors and N MiB on the default CUDA device.
Every round does each thing once, in turn; the first round is left out. What is restored is compared
bit by bit. Prints least, median and largest of each, and the median of the ratios in the rounds.
"""

import argparse
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

import cairn.torch

TENSORS = 64


def model(mib):
    rows = mib * (1 << 20) // 4 // TENSORS // 1024
    return {f"w{number}": torch.rand(rows, 1024, device="cuda") for number in range(TENSORS)}


class Weights(torch.nn.Module):
    """The same tensors as parameters, which a save may leave where they are."""

    def __init__(self, state):
        super().__init__()
        self.all = torch.nn.ParameterDict(state)


def pinned_like(state):
    return {key: torch.empty(one.shape, dtype=one.dtype, pin_memory=True)
            for key, one in state.items()}


def copied(state, into):
    for key, one in state.items():
        into[key].copy_(one, non_blocking=True)
    torch.cuda.synchronize()


class Rounds:
    def __init__(self):
        self.seconds = {}

    def timed(self, name, call):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        result = call()
        torch.cuda.synchronize()
        self.seconds.setdefault(name, []).append(time.perf_counter() - begin)
        return result

    def released(self, name, begin, part, took):
        """Times a save that leaves its tensors until `part` of the time that the last one took, and its release."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        handle = begin()
        called = time.perf_counter()
        if part < 1:
            time.sleep(part * took)
        else:
            handle.wait_written()
        again = time.perf_counter()
        handle.release()
        done = time.perf_counter()
        handle.wait_written()
        self.seconds.setdefault(name, []).append(called - start + done - again)
        assert handle.blocked_because == "", handle.blocked_because
        return time.perf_counter() - start

    def show(self, size, ratios):
        rounds = {name: all_seconds[1:] for name, all_seconds in self.seconds.items()}
        print(f"{size / (1 << 20):.0f} MiB on {torch.cuda.get_device_name()}, torch {torch.__version__}")
        for name, took in rounds.items():
            middle = statistics.median(took)
            print(f"{name:51} {min(took) * 1e3:9.1f} {middle * 1e3:9.1f} {max(took) * 1e3:9.1f} ms "
                  f"{size / middle / 1e9:7.2f} GB/s")
        for ours, other in ratios:
            ratio = statistics.median(a / b for a, b in zip(rounds[ours], rounds[other]))
            print(f"{ours} takes {ratio:.2f} times as long as {other}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--directory", default=None, help="on the disk that is to be measured")
    arguments = parser.parse_args()
    state, rounds = model(arguments.mib), Rounds()
    size = sum(one.nbytes for one in state.values())
    bare, back = pinned_like(state), {key: torch.empty_like(one) for key, one in state.items()}
    with tempfile.TemporaryDirectory(dir=arguments.directory) as place:
        # DCP's thread sends messages while ours do.
        dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.FileStore(f"{place}/store", 1),
                                rank=0, world_size=1)
        manager = cairn.torch.Manager(f"{place}/manager", max_to_keep=1, write={"skip_unchanged": "off"})
        writer = cairn.torch.StorageWriter(f"{place}/writer", max_to_keep=1, write={"skip_unchanged": "off"})
        # Like ours, it keeps its pinned memory from one save to the next, if asked to.
        keeping = dcp.FileSystemWriter(f"{place}/keeping", sync_files=True, cache_staged_state_dict=True)
        leaving = {part: cairn.torch.Manager(f"{place}/leaving-{part}", max_to_keep=1, write={"skip_unchanged": "off"})
                   for part in (1, 0.5)}
        weights, took = {"model": Weights(state)}, {}
        step = 0
        for part, one in leaving.items():  # warm
            for early in (True, True, False):
                step += 1
                took[part] = rounds.released("warm", lambda: one.save_async(step, weights, until="released"),
                                             0 if early else 1, 0)
                one.wait()
        for number in range(arguments.rounds + 1):
            step += 1
            rounds.timed("bare copy to pinned memory", lambda: copied(state, bare))
            rounds.timed("bare copy, tensor.cpu()", lambda: [one.cpu() for one in state.values()])
            handle = rounds.timed("blocked: Manager.save_async", lambda: manager.save_async(step, state))
            manager.wait()
            assert handle.committed
            host = rounds.timed("blocked: copy, then Manager.save_async of it", lambda: (
                manager.save_async(step + 1, {key: one.cpu() for key, one in state.items()})))
            manager.wait()
            assert host.committed
            for part, one in leaving.items():
                took[part] = rounds.released(
                    f"blocked: Manager, released when {'it is' if part == 1 else 'half is'} written",
                    lambda: one.save_async(step, weights, until="released"), part, took[part])
                one.wait()
            rounds.timed("Manager.save", lambda: manager.save(step + 2, state))
            for one in back.values():
                one.zero_()
            rounds.timed("Manager.restore", lambda: manager.restore(step + 2, back))
            assert all(torch.equal(state[key], back[key]) for key in state)
            future = rounds.timed("blocked: dcp.async_save, Cairn", lambda: dcp.async_save(
                state, checkpoint_id=f"{place}/writer/ckpt-{step}", storage_writer=writer))
            future.result()
            rounds.timed("dcp.save, Cairn", lambda: dcp.save(
                state, checkpoint_id=f"{place}/writer/ckpt-{step + 1}", storage_writer=writer))
            for one in back.values():
                one.zero_()
            rounds.timed("dcp.load, Cairn", lambda: dcp.load(
                back, storage_reader=cairn.torch.StorageReader(f"{place}/writer/ckpt-{step + 1}")))
            assert all(torch.equal(state[key], back[key]) for key in state)
            theirs = dcp.FileSystemWriter(f"{place}/dcp-{number}", sync_files=True)
            future = rounds.timed("blocked: dcp.async_save, DCP's writer", lambda: dcp.async_save(
                state, storage_writer=theirs))
            future.result()
            future = rounds.timed("blocked: dcp.async_save, DCP's writer, staging kept", lambda: (
                dcp.async_save(state, checkpoint_id=f"{place}/dcp-{number}-c", storage_writer=keeping)))
            future.result()
            rounds.timed("dcp.save, DCP's writer", lambda: dcp.save(
                state, storage_writer=dcp.FileSystemWriter(f"{place}/dcp-{number}-b", sync_files=True)))
            step += 2
            for path in (f"{place}/dcp-{number}{which}" for which in ("", "-b", "-c")):
                for name in os.listdir(path):
                    os.remove(f"{path}/{name}")
        manager.close()
        for one in leaving.values():
            one.close()
        del rounds.seconds["warm"]
        writer.manager.close()
        dist.destroy_process_group()
    rounds.show(size, [("blocked: Manager.save_async", "bare copy to pinned memory"),
                       ("blocked: Manager, released when it is written", "bare copy to pinned memory"),
                       ("blocked: Manager, released when half is written", "bare copy to pinned memory"),
                       ("blocked: copy, then Manager.save_async of it", "bare copy to pinned memory"),
                       ("blocked: dcp.async_save, Cairn", "bare copy to pinned memory"),
                       ("blocked: dcp.async_save, DCP's writer", "bare copy to pinned memory"),
                       ("blocked: dcp.async_save, DCP's writer, staging kept", "bare copy to pinned memory"),
                       ("Manager.save", "dcp.save, DCP's writer"),
                       ("dcp.save, Cairn", "dcp.save, DCP's writer")])


main()
