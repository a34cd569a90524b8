"""The jobs of scripts/campaign soak, what befalls them, and what must be true at their ends."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/slurm"))
# pylint: disable=wrong-import-position
from real_jobs import left_over
from soak_bucket import HOME, Bucket
from soak_samples import FILES
import story as kit
from story import Failure, Story, on_nodes, run

LAST = 10**9
TIER_KEEPS = 2  # saves on the nodes (TierOptions::keep)
kit.LIMIT_SECONDS = 600  # the jobs want more cores than there may be
GIVES_UP = re.compile(r"giving up|cannot be written|before there was a checkpoint")
JOBS = {
    "nodes": {"nodes": 2, "script": "preemptible.sbatch", "options": ["--nodes=2", "--no-kill"], "tier": True,
              "keep": 3, "arguments": ["--async", "--home-every", "4", "--flush", "5"]},
    "hdf5": {"nodes": 2, "script": "preemptible.sbatch", "options": [], "tier": False, "keep": 1,
             "arguments": ["--format", "hdf5"]},
    "moving": {"nodes": 1, "script": "simulation.sbatch", "options": ["--nodes=1", "--ntasks-per-node=3"],
               "tier": False, "keep": 5, "arguments": ["--rebalance", "5000", "--slow", "0"]},
    "history": {"nodes": 1, "script": "simulation.sbatch", "options": ["--nodes=1", "--ntasks-per-node=2"],
                "tier": False, "keep": 30, "arguments": ["--async", "--keep-u", "4", "--keep-start"]},
    "bucket": {"nodes": 1, "script": "simulation.sbatch", "options": ["--nodes=1", "--ntasks-per-node=2"],
               "tier": False, "keep": 3, "arguments": ["--async"]},
}


class Victim:
    """A job, whatever numbers it has in turn, and what has happened to it."""
    spare_files, spare_descriptors = FILES, 0  # that come and go

    def __init__(self, name, binaries, place, nodes, seed):
        self.name, self.plan, self.nodes = name, JOBS[name], nodes
        self.story = Story(name, binaries, place, nodes)
        self.random = random.Random(f"{seed} {name}")
        self.prepare_home()
        self.story.go_on_to(LAST)
        self.tier = on_nodes(self.story) if self.plan["tier"] else None
        self.floors = []  # (characters that were said, step at home then)
        self.attacks, self.submitted, self.wrong = {}, 0, []
        self.down = []
        self.submit()

    def prepare_home(self):
        self.disk = self.story.place / "disk"
        self.disk.mkdir()
        run("mount", "-t", "tmpfs", "-o", "size=8m", "none", self.disk)
        self.story.checkpoints = self.disk / "checkpoints"

    def submit(self):
        plan = self.plan
        self.submitted += 1
        self.job = self.story.submit(
            plan["script"], *plan["options"], every=0, tier=self.tier, arguments=[
                "--checkpoint-seconds", "1", "--max-to-keep", str(plan["keep"]), *plan["arguments"]])

    def state(self):
        """The state of the job; empty if Slurm does not answer on a busy machine."""
        return run("squeue", "--noheader", "--states=all", f"--jobs={self.job.number}", "-o", "%T", check=False)

    def text(self):
        return "".join(job.text() for job in self.story.jobs if job.log.name.startswith(Path(self.plan["script"]).stem))

    def home(self):
        """The newest step at home, by the files that make one visible."""
        names = [entry.name for entry in self.story.checkpoints.glob("ckpt-*")]
        return max([int(found[1]) for name in names if (found := re.fullmatch(r"ckpt-(\d+)\.(?:index|h5)", name))],
                   default=0)

    def files(self):
        """How many there are, at home and on nodes."""
        places = [self.story.checkpoints]
        places += [str(self.tier).replace("%n", node) for node in self.nodes if self.tier]
        return sum(len(files) for place in places for _, _, files in os.walk(place))

    def ranks(self):
        """Process ids of the running ranks, by node."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "comm").read_text().strip() != "gray_scott":
                    continue
                words = (process / "environ").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            values = dict(word.partition("=")[::2] for word in words)
            if values.get("SLURM_JOB_ID") == self.job.number:
                found.setdefault(values.get("SLURMD_NODENAME"), []).append(int(process.name))
        return found

    def kill(self, processes):
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    # Attacks. Each returns when it is over.
    def kill_one(self):
        ranks = sum(self.ranks().values(), [])
        self.kill(self.random.sample(ranks, min(1, len(ranks))))

    def kill_all(self):
        self.kill(sum(self.ranks().values(), []))

    def signal(self):
        run("scancel", "--batch", "--signal=USR1", self.job.number, check=False)

    def requeue(self):
        run("scontrol", "requeue", self.job.number, check=False)

    def preempt(self):
        gate = self.story.place / "gate"
        gate.unlink(missing_ok=True)
        urgent = self.story.job("urgent", run(
            "sbatch", "--parsable", "--partition=urgent", f"--nodelist={','.join(self.nodes)}", "--exclusive",
            "--output=/dev/null", "--wrap", f"until [ -e {gate} ]; do sleep 0.1; done"))
        self.story.until("the urgent job runs", lambda: urgent.state() == "RUNNING")
        gate.touch()
        self.story.until("the urgent job is over", lambda: urgent.state() == "COMPLETED")

    def full(self):
        filler = self.disk / "filler"
        left = self.random.choice([0, 0, 40, 150]) << 10
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):  # until there is no space
            while True:
                free = os.statvfs(self.disk)
                if free.f_bavail * free.f_frsize <= left:
                    break
                file.write(bytes(4096))
        time.sleep(self.random.uniform(2, 12))
        filler.unlink()

    def lost(self):
        node = self.random.choice(self.nodes)
        run("scontrol", "update", f"nodename={node}", "state=down", "reason=soak")
        self.kill(self.ranks().get(node, []))
        shutil.rmtree(Path(os.environ["SLURM_CONF"]).parent / f"local-{node}/tier", ignore_errors=True)
        self.down.append(node)
        time.sleep(self.random.uniform(1, 5))
        self.resume()

    def resume(self):
        for node in self.down:
            run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        self.down = []

    def emptied(self):
        node = self.random.choice(self.nodes)
        shutil.rmtree(Path(os.environ["SLURM_CONF"]).parent / f"local-{node}/tier", ignore_errors=True)

    def kinds(self):
        return ["kill_one", "kill_all", "signal", "requeue", "preempt", "full",
                *(["lost"] if len(self.nodes) > 1 else []), *(["emptied"] if self.tier else [])]

    def attack(self):
        kind = self.random.choice(self.kinds())
        self.attacks[kind] = self.attacks.get(kind, 0) + 1
        self.floors.append((len(self.text()), self.home()))
        print(f"{time.strftime('%X')} {self.name:7} {kind} at step {self.job.saved_step()}", flush=True)
        getattr(self, kind)()
        self.until_it_goes_on()

    def until_it_goes_on(self):
        """Waits until the job says that it saved a step, after all that it has said."""
        said = len(self.text())
        def goes_on():
            if re.search(r"^saved step \d+$", self.text()[said:], re.M):
                return True
            state = self.state()
            if state in ("FAILED", "CANCELLED", "COMPLETED", "TIMEOUT", "NODE_FAIL"):
                words = [line for line in self.job.text().splitlines() if line.startswith("cairn-job: ")]
                why = self.job.field("%r") if self.tier else ""
                if why != "JobLaunchFailure" and not GIVES_UP.search(" ".join(words[-2:])):
                    raise Failure(f"{self.name}: job {self.job.number} is {state}: {words[-2:]}")
                print(f"{time.strftime('%X')} {self.name:7} is submitted again: {why} {words[-1]}", flush=True)
                self.submit()
            return False
        self.story.until(f"{self.name} goes on", goes_on)

    def lost_steps(self):
        """What the log says that cannot be true."""
        fresh, floor, at, wrong = False, 0, 0, []
        floors = list(self.floors)
        for line in self.text().splitlines(keepends=True):
            at += len(line)
            while floors and floors[0][0] < at:
                floor = max(floor, floors.pop(0)[1])
            if found := re.match(r"saved step (\d+)$", line):
                if fresh and floor:
                    wrong.append(f"began anew, and had saved step {floor}")
                fresh = False
                floor = floor if self.tier else int(found[1])
            elif found := re.match(r"restored step (\d+) from", line):
                fresh = False
                if int(found[1]) < floor:
                    wrong.append(f"step {found[1]} was restored, {floor} had been saved")
                floor = min(floor, int(found[1]))
            elif re.match(r"cairn-job: (job .* newest checkpoint|failed .* started again)", line):
                fresh = True
        return wrong

    def finish(self):
        """Ends the job, some steps after it is told to."""
        self.resume()
        self.story.hold()
        run("scancel", "--batch", "--signal=USR1", self.job.number)
        stopped = self.story.until_held(self.job)
        self.story.go_on_to(stopped + 20)
        self.story.expect_done(self.job, stopped + 20)
        left = self.left_over()
        self.story.expect(not left, f"left over: {left}")
        actions = json.loads(run(self.story.binaries / "cairn", "gc", "--dry-run", "--json", self.story.checkpoints))
        self.story.expect(not actions["actions"], f"cairn gc finds {actions['actions']}")
        self.judge([row for row in self.story.checkpoints_there() if row.get("whole", True)])
        return stopped + 20

    def told(self):
        return ", ".join(f"{kind} {count}" for kind, count in sorted(self.attacks.items()))

    def left_over(self):
        left = left_over(self.story.checkpoints)
        if self.tier:  # what the last stop brought home from the nodes stays until the next save on these
            there = {entry.name for entry in self.story.checkpoints.glob(".cairn/pieces/ckpt/*")}
            self.story.expect(len(there) <= TIER_KEEPS, f"brought home from the nodes: {there}")
            left = [entry for entry in left if entry != ".cairn/pieces"]
        return left

    def judge(self, rows):
        """Of the checkpoints at the end."""
        there = [row["step"] for row in rows if not row["pinned"]]
        self.story.expect(len(there) <= self.plan["keep"], f"{len(there)} checkpoints: {there}")


class History(Victim):
    """Somebody pins and marks checkpoints while the job saves; older ones are thinned."""
    spare_files = 6 * FILES  # those of as many pinned checkpoints as there may be, and of one more
    MOST_PINS = 4

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.pinned, self.marked = {}, set()  # the pinned ones have these thinned
        self.done = {}

    def complete(self):
        """Checkpoints from which a restart goes on, and all."""
        rows = self.story.checkpoints_there()
        return [row["step"] for row in rows if row["whole"] and not (
            row["thinned"] or row["marked_bad"] or row["superseded"])], {row["step"]: row for row in rows}

    def home(self):
        return max(self.complete()[0], default=0)

    def tell(self, *words):
        """Asks the tool for something; returns what it says if that cannot be."""
        try:
            run(self.story.binaries / "cairn", words[0], self.story.checkpoints, *words[1:])
        except Failure as failure:
            return str(failure)
        return ""

    def attack(self):
        super().attack()
        for _ in range(3):
            what = self.random.choice(["pin", "unpin", "bad", "good"])
            self.done[what] = self.done.get(what, 0) + bool(getattr(self, what)())

    def told(self):
        return super().told() + "; " + ", ".join(f"{what} {count}" for what, count in sorted(self.done.items()))

    # What somebody does. Each returns whether there was something to do. Retention may be quicker.
    def pin(self):
        steps = [step for step in self.complete()[0][:-1] if step not in self.pinned]
        if not steps or len(self.pinned) == self.MOST_PINS:
            return False
        step = self.random.choice(steps)
        refused = self.tell("pin", step)
        row = self.complete()[1].get(step)
        if refused:
            self.story.expect(not row, f"{row} is there: {refused}")
            return False
        self.story.expect(row and row["pinned"], f"step {step} was pinned: {row}")
        self.pinned[step] = row["thinned"]
        return True

    def unpin(self):
        if not self.pinned:
            return False
        step = self.random.choice(sorted(self.pinned))
        del self.pinned[step]
        refused = self.tell("pin", step, "--remove")
        self.story.expect(not refused, refused)
        return True

    def bad(self):
        complete, rows = self.complete()
        steps = [step for step in rows if complete and step < complete[-1] and step not in self.marked]
        return bool(steps) and self.mark(self.random.choice(steps), "bad")

    def good(self):
        rows = self.complete()[1]
        steps = sorted(self.marked.intersection(rows))
        return bool(steps) and self.mark(self.random.choice(steps), "good")

    def mark(self, step, word):
        refused = self.tell("mark", step, word)
        row = self.complete()[1].get(step)
        if row:
            self.story.expect(not refused, f"{row} is there: {refused}")
            self.story.expect(row["marked_bad"] == (word == "bad"), f"step {step} was marked {word}: {row}")
        (self.marked.add if word == "bad" else self.marked.discard)(step)
        return bool(row)

    def left_over(self):
        own = {f".cairn/pinned/ckpt-{step}" for step in self.pinned} | {
            f".cairn/marked/ckpt-{step}" for step in self.marked.intersection(self.complete()[1])}
        return [entry for entry in super().left_over() if entry not in own]

    def judge(self, rows):
        super().judge(rows)
        by_step = {row["step"]: row for row in rows}
        for step, thinned in self.pinned.items():
            row = by_step.get(step)
            self.story.expect(row and row["pinned"] and row["thinned"] == thinned,
                              f"step {step} was pinned, without {thinned}: {row}")
        for row in rows:
            self.story.expect(row["marked_bad"] == (row["step"] in self.marked), f"marked are {self.marked}: {row}")
            self.story.expect(not row["pinned"] or row["step"] in self.pinned, f"pinned are {self.pinned}: {row}")
        self.story.expect(any(row["thinned"] for row in rows), "none is thinned")
        self.story.expect(any(row["shared_bytes"] for row in rows), "none shares a file")
        for key in ("start/u", "start/v"):
            run(self.story.binaries / "cairn", "diff", rows[0]["prefix"], rows[-1]["prefix"], key)


class InBucket(Victim):
    spare_descriptors = 6  # two connections, with what libcurl has for each: an attack ends them, and they come back

    def __init__(self, name, binaries, place, *arguments):
        self.bucket = Bucket(binaries)
        super().__init__(name, binaries, place, *arguments)

    def prepare_home(self):
        self.story.checkpoints = HOME

    def home(self):
        return max([row["step"] for row in self.story.checkpoints_there() if row["whole"]], default=0)

    def files(self):
        return len(self.bucket.keys())

    def left_over(self):
        return self.bucket.left_over()

    def kinds(self):
        return ["kill_one", "kill_all", "signal", "requeue", "preempt", "busy", "gone"]

    def busy(self):
        self.bucket.proxy.busy(seconds := self.random.uniform(2, 12))
        time.sleep(seconds)

    def gone(self):
        self.bucket.proxy.restart(seconds := self.random.uniform(0.5, 5))
        time.sleep(seconds)


def victim(name, *arguments):
    return {"history": History, "bucket": InBucket}.get(name, Victim)(name, *arguments)
