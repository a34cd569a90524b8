"""Jobs of the batch scripts in slurm/ under slurm/testbed, for stories: what was submitted, what
the job has printed, and the digest with which it must end."""
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 150  # for one event; a story that waits longer has failed


class Failure(Exception):
    pass


def run(*command, check=True, env=None):
    while True:
        done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, check=False)
        if done.returncode != -signal.SIGPIPE:  # a busy controller closes its clients' connections
            break
    if check and done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout.strip()


def mpi_environment():
    """The variables that scripts/mpi-env.sh exports, and those for nodes that are all one
    machine."""
    found = re.findall(r"([A-Za-z_0-9]+)=(\S+)", (ROOT / "scripts/mpi-env.sh").read_text())
    return dict(found, OMPI_MCA_btl="tcp,self", OMPI_MCA_btl_tcp_if_include="lo",
                OMPI_MCA_hwloc_base_binding_policy="none", OMPI_MCA_mpi_yield_when_idle="1",
                OMP_NUM_THREADS="1", OMP_PROC_BIND="false")


class Job:
    def __init__(self, number, log):
        self.number, self.log = number, log

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def field(self, form):
        return run("squeue", "--noheader", "--states=all", "--array", f"--jobs={self.number}", "-o", form)

    def state(self):
        return self.field("%T")

    def saved_step(self):
        """The highest step that the job says it has saved."""
        return max((int(n) for n in re.findall(r"^saved step (\d+)$", self.text(), re.M)), default=0)

    def stopped_steps(self):
        return [int(n) for n in re.findall(r"^stopped at step (\d+): ", self.text(), re.M)]

    def held_at(self):
        """The step at which the job stopped, once it has been restarted and is held; None
        before."""
        text = self.text()
        if text.rfind("held until it is told to go on") > text.rfind("stopped at step ") >= 0:
            return self.stopped_steps()[-1]
        return None

    def digests(self):
        return re.findall(r"^digest [0-9a-f]{16} step \d+$", self.text(), re.M)


class Story:
    """One story: its folder, its nodes, and the jobs that it has submitted."""
    digests, digest_lock = {}, threading.Lock()

    def __init__(self, name, binaries, place, nodes):
        self.name, self.binaries, self.place, self.nodes = name, binaries, place / name, nodes
        self.jobs = []
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        self.go_on_to(1000000)
        # The jobs' program: gray_scott, whose last step is read from a file when it starts; it
        # waits for the file. So a job runs as long as its story needs, on slow and fast machines.
        self.program = self.place / "gray_scott"
        self.program.write_text(
            f'#!/bin/bash\nsteps={self.place}/steps$SLURM_ARRAY_TASK_ID\n'
            '[ -e "$steps" ] || echo "held until it is told to go on"\n'
            'until [ -e "$steps" ]; do sleep 0.1; done\n'
            f'exec {binaries}/gray_scott --size 64 "${{@/#LAST/$(<"$steps")}}"\n')
        self.program.chmod(0o755)
        self.checkpoints = self.place / "checkpoints"
        run("scontrol", "create", f"PartitionName={name}", f"Nodes={','.join(nodes)}",
            "PriorityTier=1", "State=UP")

    def go_on_to(self, step, task=""):
        """Sets the last step of programs that start from now on."""
        part = self.place / f"steps{task}.part"
        part.write_text(f"{step}\n")
        part.rename(self.place / f"steps{task}")

    def hold(self, task=""):
        """Makes programs that start from now on wait for go_on_to."""
        (self.place / f"steps{task}").unlink()

    def submit(self, script, *options, arguments=(), launch=None, every=10, tier=None,
               **environment):
        """Submits slurm/SCRIPT as a user does, in the folder of the story."""
        values = {**os.environ, **mpi_environment(), "PROGRAM": str(self.program),
                  "CHECKPOINTS": str(self.checkpoints), "EVERY": str(every), "STEPS": "LAST",
                  "SIGKILL_TIMEOUT": "8", "PATH": f"{self.binaries}:{ROOT}/slurm:{os.environ['PATH']}"}
        if launch:
            values["LAUNCH"] = launch
        if tier:
            values.update(TIER=str(tier), PATH=f"{self.place}:{values['PATH']}", **environment)
        number = run("sbatch", "--parsable", f"--chdir={self.place}", f"--partition={self.name}", *options, ROOT / "slurm" / script,
                     *arguments, env=values)
        return self.job(script, number)

    def job(self, script, number):
        self.jobs.append(Job(number, self.place / f"{Path(script).stem}-{number}.log"))
        return self.jobs[-1]

    def until(self, what, condition):
        end = time.monotonic() + LIMIT_SECONDS
        while not (found := condition()):
            if time.monotonic() > end:
                raise Failure(f"waited {LIMIT_SECONDS} s in vain until {what}")
            time.sleep(0.1)
        return found

    def until_state(self, job, *states):
        def there():
            state = job.state()
            ended = {"FAILED", "COMPLETED", "CANCELLED", "TIMEOUT", "NODE_FAIL"} - set(states)
            if state in ended:
                raise Failure(f"job {job.number} is {state}, and should become {' or '.join(states)}")
            return state in states
        self.until(f"job {job.number} is {' or '.join(states)}", there)

    def until_held(self, job):
        """Waits until the job is held, and returns the step at which it stopped. On a slow machine
        that may be its second or third stop: no time limit waits for mpirun."""
        self.until(f"job {job.number} is held", lambda: job.held_at() is not None)
        return job.held_at()

    def until_saved(self, job, step):
        self.until(f"job {job.number} has saved step {step}", lambda: job.saved_step() >= step)

    def checkpoints_there(self, directory=None):
        text = run(self.binaries / "cairn", "ls", "--json", directory or self.checkpoints)
        return json.loads(text)["checkpoints"]

    def newest(self, directory=None):
        rows = self.checkpoints_there(directory)
        found = [row for row in rows if row["newest"]]
        self.expect(found, f"there is no newest checkpoint among {rows}")
        return found[0]

    def expect(self, good, what):
        if not good:
            raise Failure(what)

    def expect_equal(self, left, right, what):
        self.expect(left == right, f"{what}: {left!r}, should be {right!r}")

    def expect_right_digest(self, job, step):
        """Expects that the job's last line is the digest of a run that nobody disturbed."""
        with self.digest_lock:
            if step not in self.digests:
                text = run("mpirun", "-np", "1", self.binaries / "gray_scott", "--size", 64, "--steps", step,
                           "--digest", env={**os.environ, **mpi_environment()})
                self.digests[step] = re.search(r"^digest .*$", text, re.M).group()
        self.expect_equal(job.digests()[-1:], [self.digests[step]], "digest")

    def expect_done(self, job, step, directory=None):
        self.until_state(job, "COMPLETED")
        self.expect_right_digest(job, step)
        run(self.binaries / "cairn", "verify", directory or self.checkpoints)

    def finish(self):
        for job in self.jobs:
            run("scancel", job.number, check=False)

    def evidence(self):
        parts = [run("squeue", "--states=all", "-p", self.name, "-o", "%A %T %r %N %S", check=False)]
        for job in self.jobs:
            text = [line for line in job.text().splitlines() if not line.startswith("saved step")]
            parts.append(f"--- {job.log.name}\n" + "\n".join(text[-40:]))
        return "\n".join(parts)


def ranks_of(job, variable):
    """The process numbers of the job's ranks under srun, by rank, and the value of a variable in
    each."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() != "gray_scott":
                continue
            words = (process / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        values = dict(word.partition("=")[::2] for word in words)
        if values.get("SLURM_JOB_ID") == job.number:
            found[int(values["SLURM_PROCID"])] = int(process.name), values.get(variable)
    return found


def on_nodes(story):
    """Puts the job's checkpoints on nodes; only the first and the last are copied home as well."""
    local = Path(os.environ["SLURM_CONF"]).parent / "local-%n"
    story.program.write_text(story.program.read_text().replace(
        "exec ", "export CAIRN_NODE=$SLURMD_NODENAME\nexec "))
    cairn = story.place / "cairn"
    cairn.write_text(f'#!/bin/bash\nexport CAIRN_NODE=$SLURMD_NODENAME\nexec {story.binaries}/cairn "$@"\n')
    cairn.chmod(0o755)
    return local / "tier"
