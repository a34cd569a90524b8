"""The lane ceph: jobs with checkpoints in a bucket of Ceph's gateway are killed, overtaken, and cut off.

usage: ceph.py PLACE BIN [BENCH]

BENCH, if given, is scripts/bench, which measures there, and nothing else is done.
Prints what the gateway obeys, and a line for each check. Exit status 77: there can be no cluster here, for what the
last line says.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path

import boto3
import h5py
import numpy as np
import tensorflow as tf
from botocore.exceptions import ClientError

from ceph_cluster import Cluster, free_port

PLACE, BIN, BENCH = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
EVERY = 10
# Beside the format: how many cells a side. Each of three ranks has up to 12 MiB of the large ones, in parts.
KINDS = {"bundle": (64, []), "bundle_parts": (1536, ["--async"]),
         "hdf5": (64, ["--format", "hdf5"]), "hdf5_parts": (1536, ["--format", "hdf5", "--async"])}


def said_by(*words, status=0):
    ran = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         stdin=subprocess.DEVNULL, check=False)
    assert ran.returncode == status, (words, ran.stdout)
    return ran.stdout


def cairn(*words, status=0):
    return said_by(BIN / "cairn", *words, status=status)


def steps(directory):
    return [int(step) for step in re.findall(r"^ +(\d+) ", cairn("ls", directory), re.M)]


def digest(text):
    return re.search(r"^digest (\S+ step \d+)$", text, re.M)[1]


def restored(text):
    """The step, which may be one that was written, and committed by the next owner only."""
    return int(re.search(r"^restored step (\d+) ", text, re.M)[1])


def undisturbed(size, last):
    """Its digest."""
    return digest(said_by(BIN / "gray_scott", "--size", size, "--steps", last, "--digest"))


def command(directory, ranks, size, last, options):
    return ["mpirun", "--oversubscribe", "-np", ranks, BIN / "gray_scott", "--size", size, "--steps", last,
            "--checkpoint-every", EVERY, "--max-to-keep", 2, "--checkpoint-dir", directory, "--digest", *options]


def below(pid):
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [one for child in children for one in [*below(int(child)), int(child)]]


class Job:
    """One that does not end by itself."""

    def __init__(self, directory, ranks, size, options):
        self.process = subprocess.Popen(list(map(str, command(directory, ranks, size, 1000000, options))), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.said = ""

    def until(self, text):
        for line in self.process.stdout:
            self.said += line
            if text in line:
                return
        raise AssertionError(f"no '{text}' in: {self.said}")

    def send(self, number):
        for pid in below(self.process.pid):
            with contextlib.suppress(ProcessLookupError):  # mpirun ends the others when one has ended
                os.kill(pid, number)

    def end(self):
        """By itself; returns what it said."""
        self.said += self.process.communicate()[0]
        return self.said

    def kill(self):
        if self.process.poll() is None:
            self.send(signal.SIGKILL)
            self.process.kill()
            self.end()


class Lane:
    def __init__(self, client):
        self.client, self.wrong, self.jobs = client, 0, []

    def check(self, what, function, *arguments):
        begin = time.monotonic()
        try:
            function(*arguments)
            print(f"right: {what} ({time.monotonic() - begin:.0f} s)", flush=True)
        except (AssertionError, ClientError, OSError, TypeError) as error:
            self.wrong += 1
            print(f"WRONG: {what}: {error!r}", flush=True)
            traceback.print_exc()
            for job in self.jobs:
                job.kill()
        self.jobs.clear()

    def keys(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix)
        return [one["Key"] for page in pages for one in page.get("Contents", [])]

    # -- what the gateway does ------------------------------------------------------------------
    @staticmethod
    def is_done(request):
        try:
            request()
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 412), error
            return False
        return True

    def look_at_gateway(self):
        """What Cairn needs must hold, what else it asks for is printed."""
        def put(**how):
            return self.client.put_object(Bucket="bucket", Key="probe", Body=os.urandom(8), **how)["ETag"]

        def complete(**how):
            one = {"Bucket": "bucket", "Key": "probe"}
            upload = self.client.create_multipart_upload(**one)["UploadId"]
            part = self.client.upload_part(**one, UploadId=upload, PartNumber=1, Body=os.urandom(8))["ETag"]
            return self.client.complete_multipart_upload(**one, UploadId=upload, MultipartUpload={
                "Parts": [{"PartNumber": 1, "ETag": part}]}, **how)["ETag"]

        old, tag = put(), put()
        needed = {"If-None-Match of a PUT": lambda: put(IfNoneMatch="*"), "If-Match of a PUT": lambda: put(IfMatch=old),
                  "If-Match of a PUT, without quotes": lambda: put(IfMatch=old.strip('"'))}
        others = {"If-None-Match of a completed upload": lambda: complete(IfNoneMatch="*"),
                  "If-Match of a completed upload": lambda: complete(IfMatch=old),
                  "a PUT's checksum": lambda: put(ChecksumCRC32C="AAAAAA=="),
                  "If-Match of a DELETE": lambda: self.client.delete_object(Bucket="bucket", Key="probe", IfMatch=old)}
        takes = "takes" if self.is_done(lambda: put(IfMatch=tag)) else "does not take"
        print(f"gateway: {takes} quotes of a tag in If-Match of a PUT")
        for what, request in {**needed, **others}.items():
            is_ignored = self.is_done(request)
            print(f"gateway: {'ignores' if is_ignored else 'obeys'} {what}", flush=True)
            assert what in others or not is_ignored, what
        tag = complete()
        print(f"gateway: answers a completed upload with the tag '{tag}'", flush=True)

    # -- jobs -------------------------------------------------------------------------------------
    def job(self, *what):
        self.jobs.append(Job(*what))
        return self.jobs[-1]

    def kill_and_go_on(self, kind):
        size, options = KINDS[kind]
        address = f"s3://bucket/{kind}"
        said_by(*command(address, 3, size, 3 * EVERY, options))
        job = self.job(address, 3, size, options)
        job.until(f"saved step {5 * EVERY}")
        job.kill()
        newest = steps(address)[-1]
        last = newest + 2 * EVERY
        told = said_by(*command(address, 2, size, last, options))
        assert newest <= restored(told) < last, told
        assert digest(told) == undisturbed(size, last), told
        assert steps(address) == [last - EVERY, last], steps(address)
        self.look_with_tool(address, last)
        self.look_with_others(kind, last)
        uploads = self.client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])
        assert not uploads, uploads
        assert f"would remove ckpt-{last - EVERY} " in cairn("gc", address, "--max-to-keep", 1, "--dry-run")
        assert f"remove ckpt-{last - EVERY} " in cairn("gc", address, "--max-to-keep", 1)
        known = re.compile(rf"{kind}/(ckpt-{last}\.|checkpoint$|\.cairn/)")
        left = [key for key in self.keys(kind + "/") if not known.match(key)]
        assert steps(address) == [last] and not left, (steps(address), left)

    @staticmethod
    def look_with_tool(address, last):
        assert "whole" in cairn("verify", address)
        assert f"ckpt-{last}\n" in cairn("show", address)
        for name in "u", "v":
            cairn("cat", f"{address}/ckpt-{last}", name, "--format", "npy", "--output", PLACE / f"{name}.npy")
        assert "nothing to do" in cairn("gc", address)

    def look_with_others(self, kind, last):
        """A plain download has the same values."""
        copy = PLACE / f"{kind}-copy"
        copy.mkdir()
        for key in self.keys(f"{kind}/ckpt-{last}."):
            self.client.download_file("bucket", key, str(copy / key.rsplit("/", 1)[1]))
        if kind.startswith("hdf5"):
            with h5py.File(copy / f"ckpt-{last}.h5") as file:
                values = {name: file[name][:] for name in ("u", "v")}
        else:
            reader = tf.train.load_checkpoint(str(copy / f"ckpt-{last}"))
            values = {name: reader.get_tensor(name) for name in ("u", "v")}
        for name, value in values.items():
            assert np.array_equal(value, np.load(PLACE / f"{name}.npy")), name
        cairn("diff", copy / f"ckpt-{last}", f"s3://bucket/{kind}/ckpt-{last}")

    def overtake(self, kind):
        """A job is stopped while another one takes over; when it goes on, it must find out and change nothing."""
        size, options = KINDS[kind]
        address = f"s3://bucket/overtaken-{kind}"
        job = self.job(address, 2, size, options)
        job.until(f"saved step {2 * EVERY}")
        job.send(signal.SIGSTOP)
        newest = steps(address)[-1]
        last = newest + 2 * EVERY
        told = said_by(*command(address, 3, size, last, options))
        assert newest <= restored(told) < last, told
        before = {key: self.client.head_object(Bucket="bucket", Key=key)["ETag"] for key in self.keys(kind)}
        job.send(signal.SIGCONT)
        said = job.end()
        assert job.process.returncode != 0 and "another owner" in said, said
        assert before == {key: self.client.head_object(Bucket="bucket", Key=key)["ETag"] for key in self.keys(kind)}
        assert steps(address) == [last - EVERY, last], steps(address)
        assert "whole" in cairn("verify", address)

    def refuse_second(self):
        """A job saves there, so another one is refused."""
        job = self.job("s3://bucket/busy", 1, 64, [])
        job.until(f"saved step {EVERY}")
        told = said_by(*command("s3://bucket/busy", 1, 64, EVERY, []), status=1)
        assert "has another owner" in told, told
        assert "has another owner" in cairn("gc", "s3://bucket/busy", status=2)
        job.kill()

    def lose_gateway(self, cluster, port):
        """It is killed and begins again; a job waits for it."""
        job = self.job("s3://bucket/lost", 2, 64, ["--async"])
        job.until(f"saved step {2 * EVERY}")
        cluster.kill("radosgw")
        cluster.begin_gateway(port)
        job.until(f"saved step {50 * EVERY}")
        job.kill()
        newest = steps("s3://bucket/lost")[-1]
        told = said_by(*command("s3://bucket/lost", 3, 64, newest + EVERY, []))
        assert digest(told) == undisturbed(64, newest + EVERY), told


def cluster_with_gateway(port):
    # The gateway keeps removed objects for hours, so a bench needs room for all.
    cluster = Cluster(PLACE / "cluster", memory=(12 if BENCH else 2) << 30)
    try:
        cluster.tool("radosgw-admin", "user", "create", "--uid=cairn", "--display-name=Cairn", "--access-key=key",
                     "--secret-key=secret")
        cluster.begin_gateway(port)
    except BaseException:
        cluster.end()
        raise
    return cluster


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    port = free_port("127.0.0.1")
    try:
        cluster = cluster_with_gateway(port)
    except (OSError, RuntimeError) as error:
        print("there is no cluster:", " ".join(str(error).split()))
        return 77
    try:
        os.environ.update(AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}", AWS_REGION="us-east-1", AWS_ACCESS_KEY_ID="key",
                          AWS_SECRET_ACCESS_KEY="secret")
        client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        if BENCH:
            # Its bare client signs nothing.
            client.put_bucket_policy(Bucket="bucket", Policy=json.dumps({"Version": "2012-10-17", "Statement": [
                {"Effect": "Allow", "Principal": "*", "Action": "s3:*",
                 "Resource": ["arn:aws:s3:::bucket", "arn:aws:s3:::bucket/*"]}]}))
            return subprocess.run([*BENCH, "--bucket", "128", "5"], check=False).returncode
        lane = Lane(client)
        lane.check("the gateway obeys what Cairn needs", lane.look_at_gateway)
        for kind in KINDS:
            lane.check(f"{kind}: killed on 3 ranks, ended on 2 with the same bits, and read by others",
                       lane.kill_and_go_on, kind)
        for kind in "bundle", "hdf5":
            lane.check(f"{kind}: a job that was stopped and overtaken finds out", lane.overtake, kind)
        lane.check("a second job and cairn gc are refused", lane.refuse_second)
        lane.check("a gateway that is killed and begins again", lane.lose_gateway, cluster, port)
    finally:
        cluster.end()
    version = re.search(r"version (\S+)", said_by("ceph-mon", "--version"))[1]
    print(f"ran: jobs with checkpoints in a bucket of Ceph {version}'s gateway, killed, overtaken, cut off")
    return 1 if lane.wrong else 0


sys.exit(main())
