"""examples/torch under torchrun and mpirun: killed, started again, on other meshes.

torch_stories.py DIRECTORY train.py TOOL READ [LAUNCHER...]
"""

import os
import shutil
import signal
import subprocess
import sys

import cairn
import torch
from torch.nn import functional

DIRECTORY, PROGRAM, TOOL, READ, *LAUNCHER = sys.argv[1:]
STEPS, EVERY = 12, 4
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def torchrun(ranks, *options):
    return [sys.executable, "-B", "-m", "torch.distributed.run", "--standalone",
            "--nproc-per-node", str(ranks), *options, PROGRAM]


def launched(ranks):
    """Starts ranks without torchrun, which imports torch once more, if there is MPI."""
    return [*LAUNCHER, str(ranks), sys.executable, "-B", PROGRAM] if LAUNCHER else torchrun(ranks)


def arguments(directory, mesh, steps=STEPS):
    return [directory, "--mesh", mesh, "--steps", str(steps), "--every", str(EVERY)]


def losses_of(text):
    """Losses by step; after a restart a step may come twice, and must have the same loss."""
    losses = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[0] == "step" and words[2] == "loss":
            assert losses.setdefault(int(words[1]), words[3]) == words[3], (line, text)
    return losses


def run(command):
    ran = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {ran.returncode}:\n{ran.stdout}")
    return ran.stdout


def children(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        return [int(pid) for pid in file.read().split()]


def killed(command, after, whole):
    """Kills a worker, or the whole job, when rank 0 has printed this step."""
    job = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    told = ""
    for line in job.stdout:
        told += line
        if after is not None and line.startswith(f"step {after} "):
            workers = children(job)
            for pid in [job.pid, *workers] if whole else workers[-1:]:
                os.kill(pid, signal.SIGKILL)
            after = None
    job.wait()
    assert after is None, told
    return job.returncode, told


shutil.rmtree(DIRECTORY, ignore_errors=True)
os.makedirs(DIRECTORY)
whole = losses_of(run([*launched(4), *arguments(f"{DIRECTORY}/whole", "2x2")]))
assert list(whole) == list(range(1, STEPS + 1)), whole

# The whole job dies as it saves; in the job that goes on, one worker dies, and torchrun starts all
# of them again.
run_directory = f"{DIRECTORY}/killed"
status, told = killed([*torchrun(4), *arguments(run_directory, "2x2")], EVERY, whole=True)
assert status == -signal.SIGKILL and losses_of(told).items() <= whole.items(), told
status, told = killed([*torchrun(4, "--max-restarts", "1"), *arguments(run_directory, "2x2")],
                      2 * EVERY + 1, whole=False)
assert status == 0 and told.count("going on from step") >= 1, told
again = losses_of(told)
assert again.items() <= whole.items() and STEPS in again, (again, whole)
print("killed and restarted: the same losses")

# On other meshes sums are in another order, so a run there is compared with another run there, from
# the same checkpoint.
shutil.copytree(run_directory, f"{DIRECTORY}/copy")
first = losses_of(run([*torchrun(3), *arguments(run_directory, "1x3", STEPS + 3)]))
assert list(first) == [STEPS + 1, STEPS + 2, STEPS + 3], first
second = losses_of(run([*launched(3), *arguments(f"{DIRECTORY}/copy", "1x3", STEPS + 3)]))
assert first == second, (first, second)
print("on another mesh: the same losses twice")

# Without dropout only the order of sums differs: wrong moments of the optimizer would be visible in
# the second step.
run([*launched(4), *arguments(f"{DIRECTORY}/plain", "2x2", EVERY), "--dropout", "0"])
shutil.copytree(f"{DIRECTORY}/plain", f"{DIRECTORY}/plain-2x2")
there, here = (losses_of(run([*launched(ranks), *arguments(f"{DIRECTORY}/{name}", mesh, 2 * EVERY), "--dropout", "0"]))
               for ranks, name, mesh in ((3, "plain", "1x3"), (4, "plain-2x2", "2x2")))
assert list(there) == list(here) == list(range(EVERY + 1, 2 * EVERY + 1)), (there, here)
distance = [abs(float.fromhex(there[step]) - float.fromhex(here[step])) for step in here]
assert max(distance) < 1e-4, distance
print("on another mesh without dropout: the same losses but for rounding")

assert subprocess.run([TOOL, "verify", run_directory], stdout=subprocess.DEVNULL).returncode == 0
opened = cairn.open(f"{DIRECTORY}/whole")
weight = opened["model/blocks.0.up.weight"]
assert weight.shape == (192, 48) and len(weight.slices) == 4, weight.slices
assert opened["optimizer/state/0/exp_avg"].shape == (96, 48) and opened["step"][()] == STEPS

# A C++ program without PyTorch computes the same model.
sys.path.insert(0, os.path.dirname(PROGRAM))
from model import Model  # noqa: E402

model = Model(dropout=0)
model.load_state_dict({name: torch.from_numpy(opened[f"model/{name}"][()]) for name in model.state_dict()})
text = "Permission is granted to copy and distribute this"
numbers = torch.tensor([[ord(one) - 32 for one in text]])
with torch.no_grad():
    wanted = functional.cross_entropy(model(numbers[:, :-1])[0], numbers[0, 1:]).item()
step, found = run([READ, f"{DIRECTORY}/whole", text]).split()[1::2]
assert int(step) == STEPS and abs(float(found) - wanted) < 1e-5, (step, found, wanted)
print("a C++ program foretells a text as well")

# DistributedDataParallel, with dropout: the same losses when a second job goes on from step 8.
ddp = [*torchrun(2)[:-1], os.path.join(os.path.dirname(PROGRAM), "ddp.py")]
undisturbed = losses_of(run([*ddp, f"{DIRECTORY}/ddp-whole", "11"]))
before = losses_of(run([*ddp, f"{DIRECTORY}/ddp", "8"]))
after = losses_of(run([*ddp, f"{DIRECTORY}/ddp", "11"]))
assert list(after) == [9, 10, 11] and {**before, **after} == undisturbed, (before, after, undisturbed)
print("DistributedDataParallel, restarted: the same losses")
print("right")
