"""Checkpoints in a bucket of moto's server: what boto3 downloads is read by TensorFlow, a job goes on from
there on other ranks with the same bits, and keys may have any characters.

usage: bucket.py WORK_DIRECTORY CAIRN GRAY_SCOTT LAUNCHER...
"""
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import boto3
import h5py
import numpy as np
import tensorflow as tf
from moto.server import ThreadedMotoServer

work, tool, program, *launcher = sys.argv[1:]
work = Path(work).absolute()
shutil.rmtree(work, ignore_errors=True)
work.mkdir(parents=True)
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
os.environ.update(AWS_ENDPOINT_URL="http://%s:%d" % server.get_host_and_port(), AWS_REGION="us-east-1",
                  AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")
client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
client.create_bucket(Bucket="bucket")


def cairn(*words, status=0):
    ran = subprocess.run([tool, *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert ran.returncode == status, (words, ran.stdout)
    return ran.stdout


def command(directory, ranks, steps, size="64", *options):
    return [*launcher, str(ranks), program, "--size", size, "--steps", str(steps), "--checkpoint-every", "10",
            "--max-to-keep", "2", "--checkpoint-dir", str(directory), "--digest", "--async", *options]


def run(directory, ranks, steps, *options):
    ran = subprocess.run(command(directory, ranks, steps, *options), text=True, stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def ranks_of(process):
    """All processes below this one."""
    with open(f"/proc/{process}/task/{process}/children") as file:
        children = [int(one) for one in file.read().split()]
    return [below for one in children for below in [*ranks_of(one), one]]


def digest(text):
    return re.search(r"^digest (\S+ step \d+)$", text, re.M)[1]


def steps(directory):
    return [int(step) for step in re.findall(r"^ +(\d+) ", cairn("ls", directory), re.M)]


def keys(prefix):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=prefix)
    return {one["Key"]: one["Size"] for page in pages for one in page.get("Contents", [])}


def download(prefix, to):
    to.mkdir()
    for key in keys(prefix + "/ckpt-") | keys(prefix + "/checkpoint"):
        client.download_file("bucket", key, str(to / key.rsplit("/", 1)[1]))


for number, name in enumerate(["run", "a b+c%2F&=ü/" + 300 * "long"]):
    address = f"s3://bucket/{name}"
    run(address, 3, 30)
    # All ranks die in the middle of the job; another one goes on, when it has seen that they are dead.
    job = subprocess.Popen(command(address, 2, 1000000), text=True, stdout=subprocess.PIPE)
    for line in job.stdout:
        if line.startswith("saved step 60"):
            for process in [*ranks_of(job.pid), job.pid]:
                os.kill(process, signal.SIGKILL)
            break
    job.wait()
    job.stdout.close()
    newest = steps(address)[-1]
    last = newest + 20
    if number:
        # What the job was writing goes without a job as well; the tool waits until the owner is dead, too.
        cairn("gc", address, "--dry-run")
        cairn("gc", address)
        newest = steps(address)[-1]
        left = {int(re.search(r"/ckpt-(\d+)\.", key)[1]) for key in keys(name) if "/ckpt-" in key}
        assert left == set(steps(address)), left
        assert "nothing to do" in cairn("gc", address), left
    told = run(address, 1, last)
    # A save that all ranks had written is completed first.
    assert any(f"restored step {step} from {address}/ckpt-{step}\n" in told for step in (newest, newest + 10)), told
    assert digest(told) == digest(run(work / f"undisturbed-{number}", 3, last)), told
    assert steps(address) == [last - 10, last], steps(address)
    assert "whole" in cairn("verify", address)
    left = [key for key in keys(name) if not re.fullmatch(
        rf"(ckpt-({last - 10}|{last})\.(index|data-.*)|checkpoint|\.cairn/.*)", key.removeprefix(name + "/"))]
    assert not left, left

    copy = work / f"copy-{number}"
    download(name, copy)
    assert tf.train.latest_checkpoint(str(copy)) == str(copy / f"ckpt-{last}")
    reader = tf.train.load_checkpoint(str(copy))
    for key in "u", "v":
        value = reader.get_tensor(key)
        assert value.shape == (64, 64) and np.isfinite(value).all(), key
        ours = work / f"{key}-{number}.npy"
        cairn("cat", f"{address}/ckpt-{last}", key, "--format", "npy", "--output", str(ours))
        assert np.array_equal(np.load(ours), value), key
    assert digest(run(copy, 2, last)) == digest(told)
    assert f"would remove ckpt-{last - 10} " in cairn("gc", address, "--max-to-keep", "1", "--dry-run")
    assert steps(address) == [last - 10, last], steps(address)
    assert f"remove ckpt-{last - 10} " in cairn("gc", address, "--max-to-keep", "1")
    assert steps(address) == [last], steps(address)
    assert "whole" in cairn("verify", address)

    # From a directory and from a bucket, as a step and as a single checkpoint; cut into small files, too.
    to = f"s3://bucket/converted-{number}"
    cairn("convert", str(copy / f"ckpt-{last}"), f"{to}/ckpt-{last}")
    cairn("convert", f"{address}/ckpt-{last}", f"{to}/one", "--max-shard-size", "10KiB")
    for made in f"{to}/ckpt-{last}", f"{to}/one":
        assert "whole" in cairn("verify", made)
        cairn("diff", made, f"{address}/ckpt-{last}")
    assert "exists" in cairn("convert", str(copy), f"{to}/ckpt-{last}", status=2)
    cairn("convert", str(copy), f"{to}/ckpt-{last}", "--overwrite")
    assert digest(run(to, 2, last)) == digest(told)
    told_why = cairn("convert", address, f"{to}/x.safetensors", status=2)
    assert "Convert to a directory" in told_why, told_why

    # What is brought there without the list that Cairn keeps counts all the same.
    for key in keys(f"converted-{number}/.cairn/"):
        client.delete_object(Bucket="bucket", Key=key)
    assert steps(to) == [last], cairn("ls", to)
    assert f"restored step {last} from {to}/ckpt-{last}\n" in run(to, 3, last + 20)
    assert steps(to) == [last + 10, last + 20], cairn("ls", to)

    # What others put beside that list stays, and counts when it is asked to.
    for key in keys(f"{name}/ckpt-{last}."):
        client.copy_object(Bucket="bucket", CopySource={"Bucket": "bucket", "Key": key},
                           Key=f"converted-{number}/" + key.rsplit("/", 1)[1])
    brought = f"{to}/ckpt-{last}"
    assert "nothing to do" in cairn("gc", to), cairn("ls", to)
    assert f"cairn convert {brought} {brought} --overwrite makes it count" in cairn("ls", to), cairn("ls", to)
    assert steps(to) == [last + 10, last + 20], cairn("ls", to)
    assert "exists" in cairn("convert", brought, brought, status=2)
    cairn("convert", brought, brought, "--overwrite")
    assert steps(to) == [last + 10, last + 20, last], cairn("ls", to)
    assert f"ckpt-{last}\n" in cairn("show", to), cairn("show", to)
    cairn("diff", brought, f"{address}/ckpt-{last}")
    assert "nothing to do" in cairn("gc", to), cairn("ls", to)

# HDF5 files: of one part, and of several that ranks have sent.
for size in "64", "1024":
    options = size, "--format", "hdf5"
    name = f"hdf5-{size}"
    address = f"s3://bucket/{name}"
    run(address, 3, 20, *options)
    assert set(keys(name + "/ckpt-")) == {f"{name}/ckpt-10.h5", f"{name}/ckpt-20.h5"}, keys(name)
    told = run(address, 2, 40, *options)
    assert f"restored step 20 from {address}/ckpt-20\n" in told, told
    assert digest(told) == digest(run(work / name, 3, 40, *options)), told
    assert steps(address) == [30, 40], steps(address)
    assert "whole" in cairn("verify", address)
    assert "nothing to do" in cairn("gc", address), cairn("ls", address)
    copy = work / f"{name}-copy.h5"
    client.download_file("bucket", f"{name}/ckpt-40.h5", str(copy))
    with h5py.File(copy) as file:
        for key in "u", "v":
            ours = work / f"{name}-{key}.npy"
            cairn("cat", f"{address}/ckpt-40", key, "--format", "npy", "--output", str(ours))
            assert np.array_equal(np.load(ours), file[key][:]), key
    assert "whole" in cairn("verify", str(copy))
    cairn("diff", str(copy), f"{address}/ckpt-40")
    for made in f"{to}/ckpt-{size}", f"s3://bucket/{name}-again/ckpt-7.h5":
        cairn("convert", f"{address}/ckpt-40", made)
        cairn("diff", made, f"{address}/ckpt-40")
    cairn("convert", f"{address}/ckpt-40", made, "--overwrite")
    assert "whole" in cairn("verify", f"s3://bucket/{name}-again")
    told_why = cairn("convert", f"{address}/ckpt-40", made.removesuffix(".h5"), "--overwrite", status=2)
    assert "in another format" in told_why, told_why

assert "there is no bucket nothing" in cairn("ls", "s3://nothing/run", status=2)
server.stop()
print("right")
