"""The rounds of scripts/campaign bucket, which says what they are.

usage: bucket_rounds.py PLACE GRAY_SCOTT CAIRN SEEDS
"""
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

from bucket_proxy import Proxy

SMALL, IN_PARTS = "48", "1056"  # a checkpoint of the second has several parts
STEPS, EVERY = 600, 20


def below(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid] + [one for child in children for one in below(int(child))]


class Job:
    def __init__(self, rounds, directory, ranks, saves, keep, restart="auto", size=SMALL):
        self.log = rounds.place / "job.log"
        words = ["mpirun", "--oversubscribe", "-np", str(ranks), rounds.program, "--size", size, "--steps", str(STEPS),
                 "--checkpoint-every", str(EVERY), "--checkpoint-dir", directory, "--restart", restart,
                 "--max-to-keep", str(keep), "--digest", *saves]
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    def text(self):
        return self.log.read_text()

    def ranks(self):
        def is_rank(pid):
            try:
                return Path(os.readlink(f"/proc/{pid}/exe")).name == "gray_scott"
            except OSError:
                return False
        return [pid for pid in below(self.process.pid) if is_rank(pid)]

    def send(self, what, pids):
        for pid in pids:
            try:
                os.kill(pid, what)
            except ProcessLookupError:
                pass

    def await_step(self, step):
        """Until it has said that a step is saved; False if it ends before."""
        while f"saved step {step}" not in self.text():
            if self.process.poll() is not None:
                return False
            time.sleep(0.01)
        return True

    def digest(self):
        found = re.search(r"^digest (\S+ step \d+)$", self.text(), re.M)
        return found[1] if found else None

    def restored(self):
        found = re.search(r"^restored step (\d+)", self.text(), re.M)
        return int(found[1]) if found else 0


class Rounds:
    def __init__(self, place, program, tool):
        self.place, self.program, self.tool = Path(place), program, tool
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        self.proxy = Proxy(server.get_host_and_port())
        os.environ.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{self.proxy.port}", AWS_REGION="us-east-1",
                          AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
        self.client = boto3.client("s3", endpoint_url="http://%s:%d" % server.get_host_and_port(),
                                   region_name="us-east-1")
        self.client.create_bucket(Bucket="bucket")
        self.right = {}
        for size in SMALL, IN_PARTS:
            quiet = Job(self, str(self.place / "quiet"), 2, [], 1, "none", size)
            quiet.process.wait()
            self.right[size] = quiet.digest()
            assert self.right[size], quiet.text()

    def cairn(self, *words):
        ran = subprocess.run([self.tool, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return ran.returncode, ran.stdout

    def steps(self, directory):
        return [int(step) for step in re.findall(r"^ +(\d+) ", self.cairn("ls", directory)[1], re.M)]

    def keys(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    def end_ownership(self, name):
        """As if the time for which a killed job still owns the directory had passed."""
        self.client.delete_object(Bucket="bucket", Key=f"{name}/.cairn/owner.ckpt")

    def round(self, seed):
        draw = random.Random(seed)
        name = f"round-{seed}"
        directory = f"s3://bucket/{name}"
        saves = draw.choice([[], ["--async"], ["--async", "--released"]])
        if seed % 2 == 0:
            saves += ["--format", "hdf5"]
        size = IN_PARTS if seed % 4 == 0 else SMALL
        right = self.right[size]
        harm = 0.02 if size == IN_PARTS else 1  # the proxy draws for each 64 KiB
        keep = draw.randint(1, 3)
        story, wrong, newest = [], [], 0
        stopped = None
        begin = lambda: Job(self, directory, draw.randint(1, 3), saves, keep, size=size)
        for _ in range(draw.randint(1, 2)):
            self.proxy.loss = draw.choice([0, 0.002, 0.01]) * harm
            job = begin()
            strike = draw.choice(["one", "all", "stop", "restart"])
            story.append(strike)
            done = not job.await_step(newest + EVERY * draw.randint(1, 8))
            time.sleep(draw.random() * 0.2)
            if strike == "restart":
                self.proxy.restart(draw.random() * 2)
                job.await_step(STEPS - EVERY)
            ranks = job.ranks()
            if done or not ranks:
                job.process.wait()
            elif strike == "stop" and not stopped:
                job.send(signal.SIGSTOP, ranks)
                stopped = (job, ranks)
                job.log = job.log.rename(self.place / "stopped.log")
            else:
                job.send(signal.SIGKILL, [draw.choice(ranks)] if strike == "one" else ranks)
                job.process.wait()
            self.proxy.loss = 0
            newest = max([0, *self.steps(directory)])
            self.end_ownership(name)
        self.proxy.loss = draw.choice([0, 0.002, 0.01]) * harm
        job = begin()
        if stopped and draw.random() < 0.5 and job.await_step(newest + 2 * EVERY):
            stopped[0].send(signal.SIGCONT, stopped[1])
        job.process.wait()
        self.proxy.loss = 0
        if job.digest() != right:
            wrong.append(f"digest {job.digest()}")
        if not newest <= job.restored():
            wrong.append(f"LOST: step {newest} was there, {job.restored()} restored")
        if stopped:
            stopped[0].send(signal.SIGCONT, stopped[1])
            stopped[0].process.wait()
            if stopped[0].digest() and stopped[0].process.returncode == 0 and stopped[0].digest() != right:
                wrong.append("the stopped job ended otherwise")
        expected = list(range(STEPS, 0, -EVERY))[:keep][::-1]
        there = self.steps(directory)
        if there != expected and job.restored() == STEPS and there[-keep:] == expected:
            expected = there  # the one that saved last was killed before it removed older ones
        if there != expected:
            wrong.append(f"steps {there}, not {expected}")
        code, told = self.cairn("verify", directory)
        if code:
            wrong.append("verify: " + told)
        # What a stopped job has left behind its successor's back, the next owner removes.
        again = Job(self, directory, 1, saves, keep, size=size)
        again.process.wait()
        if again.digest() != right:
            wrong.append(f"once more: {again.digest()}")
        allowed = "|".join(map(str, expected))
        left = [key for key in self.keys(name + "/") if not re.fullmatch(
            rf"(ckpt-({allowed})\.(index|data-.*|h5)|checkpoint|\.cairn/.*)", key.removeprefix(name + "/"))]
        uploads = self.client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
        if left or uploads:
            wrong.append(f"left over: {left} {uploads}")
        print(f"   {seed:4}  {' '.join(saves) or 'blocking':34} keep {keep}  {', '.join(story):20} "
              f"{'; '.join(wrong) or 'right'}", flush=True)
        if not wrong:
            for key in self.keys(name + "/"):
                self.client.delete_object(Bucket="bucket", Key=key)
        else:
            shutil.copy(job.log, self.place / f"{name}.log")
        return not wrong


def main():
    place, program, tool, seeds = sys.argv[1:]
    first, _, last = seeds.partition("-")
    rounds = Rounds(place, program, tool)
    print(f"== Rounds: {SMALL} x {SMALL} and {IN_PARTS} x {IN_PARTS} cells, {STEPS} steps, a checkpoint each {EVERY}", flush=True)
    wrong = [seed for seed in range(int(first), int(last or first) + 1) if not rounds.round(seed)]
    print(f"lost on the way: {rounds.proxy.lost}")
    if wrong:
        sys.exit(f"{len(wrong)} rounds went wrong: scripts/campaign bucket --seeds {wrong[0]} repeats the first")


main()
