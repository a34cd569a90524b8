"""Training runs in other people's frameworks, killed and started again.

A program has train(directory, keeper): it trains from what is in the directory, or from the start, and tells each
loss. The keeper of its checkpoints is "nobody", "cairn" or "framework". Ranks are forked, so a framework is
imported once for all runs.
"""

import hashlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback

os.environ.update(GLOO_SOCKET_IFNAME="lo", HF_HUB_OFFLINE="1", KERAS_BACKEND="torch", OMP_NUM_THREADS="1",
                  TOKENIZERS_PARALLELISM="false", CUDA_VISIBLE_DEVICES="", TQDM_DISABLE="1")

import torch
import torch.distributed as dist

STEPS, EVERY = 12, 3  # a run, and between two saves
KILLED_AT = (4, 8)
LIMIT_SECONDS = 150  # for what hangs
_held_at = None


def tell(step, loss):
    """One line a step. Where this run is to be killed it waits for that."""
    if os.environ.get("RANK", "0") == "0":
        print(f"step {step} loss {float(loss.detach() if isinstance(loss, torch.Tensor) else loss).hex()}", flush=True)
    if step == _held_at:
        while True:
            signal.pause()


def tell_end(tensors):
    """Of what was trained. All ranks ask for it: what is sharded is gathered."""
    tensors = list(tensors)
    if os.environ.get("RANK", "0") == "0":
        print(f"end {digest(tensors)}", flush=True)


def digest(tensors):
    total = hashlib.sha256()
    for one in tensors:
        total.update(one.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()


def _rank(rank, size, store, held_at, train, arguments):
    global _held_at
    _held_at = held_at
    torch.set_num_threads(1)
    if size > 1:
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size), LOCAL_WORLD_SIZE=str(size),
                          MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
        dist.init_process_group("gloo", store=dist.FileStore(store, size), rank=rank, world_size=size)
    train(*arguments)
    if dist.is_initialized():
        dist.destroy_process_group()


def _fork(output, *arguments):
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        sys.stdout = open(1, "w", buffering=1, closefd=False)
        sys.stderr = open(2, "w", buffering=1, closefd=False)
        _rank(*arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        import cairn.manager

        try:
            cairn.manager._end_all()
        finally:
            sys.stdout.flush()
            os._exit(status)


def run(train, *arguments, ranks=1, killed_at=None):
    """What a job told: its losses by step, and its end. All its ranks get SIGKILL when it has told a step."""
    place = tempfile.mkdtemp()
    reader, writer = os.pipe()
    children = [_fork(writer, rank, ranks, f"{place}/store", killed_at, train, arguments) for rank in range(ranks)]
    os.close(writer)

    def kill():
        for pid in children:
            os.kill(pid, signal.SIGKILL)

    limit = threading.Timer(LIMIT_SECONDS, kill)
    limit.start()
    told, lines, is_killed = {}, [], False
    with open(reader, errors="replace") as output:
        for line in output:
            lines.append(line)
            words = line.split()
            if words[:1] == ["step"] and len(words) == 4:
                told[int(words[1])] = words[3]
                if int(words[1]) == killed_at:
                    kill()
                    is_killed = True
            elif words[:1] == ["end"]:
                told["end"] = words[1]
    statuses = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children}
    limit.cancel()
    shutil.rmtree(place)
    expected = {-signal.SIGKILL} if killed_at else {0}
    if statuses != expected or is_killed != bool(killed_at):
        sys.exit(f"{arguments} on {ranks} ended with {statuses}:\n{''.join(lines)}")
    return told


def lives(train, keeper, ranks):
    """What a run that is killed twice told in each of its lives."""
    with tempfile.TemporaryDirectory() as directory:
        return [run(train, directory, keeper, ranks=ranks, killed_at=step) for step in (*KILLED_AT, None)]


def judge(train, ranks=1, framework_is_exact=True):
    """The run without a stop and without checkpoints is what resumed runs must be."""
    name = f"{train.__name__} on {ranks}"
    with tempfile.TemporaryDirectory() as directory:
        whole = run(train, directory, "nobody", ranks=ranks)
    assert list(whole) == [*range(1, STEPS + 1), "end"], whole
    for keeper in ("cairn", "framework"):
        told = lives(train, keeper, ranks)
        assert [list(one)[0] for one in told] == [1, *(step // EVERY * EVERY + 1 for step in KILLED_AT)], told
        assert [list(one)[-1] for one in told] == [*KILLED_AT, "end"], told
        differ = [(step, loss, whole[step]) for one in told for step, loss in one.items() if loss != whole[step]]
        is_exact = not differ
        print(f"{name}: {keeper}, killed twice: {'the same losses' if is_exact else 'other losses'}", flush=True)
        assert is_exact == (keeper == "cairn" or framework_is_exact), (keeper, differ)
