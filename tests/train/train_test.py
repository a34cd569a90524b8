"""The training example and TensorFlow take turns with one run.

usage: train_test.py WORK_DIRECTORY EXAMPLE_DIRECTORY PROGRAM LAUNCHER...
A rank count follows the launcher's last argument.
"""
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import tensorflow as tf

# TensorFlow adds in another order: losses agree to float32's rounding, which accumulates over the
# steps.
ROUNDING, CARRIED_ON = 1e-5, 2e-3


def losses_of(text):
    found = re.findall(r"^step (\d+) loss (\S+) ", text, re.M)
    return {int(step): float.fromhex(loss.replace(",", ".")) for step, loss in found}  # in any locale


def compare(theirs, ours, tolerance):
    for step, loss in theirs.items():
        if not abs(loss - ours[step]) <= tolerance:
            sys.exit(f"FAILED: step {step} has a loss of {loss} and not {ours[step]}")


def main():
    work, example, program, launcher = os.path.abspath(sys.argv[1]), *sys.argv[2:4], sys.argv[4:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(os.path.join(work, "text"))
    with open(os.path.join(work, "text", "lines"), "w", encoding="utf-8") as text:
        text.writelines(f"Line {i}  of a text,\twith\N{COPYRIGHT SIGN} {i * i % 97} words.\n"
                        for i in range(270))
    common = ["--text", os.path.join(work, "text")]
    ours, theirs = (os.path.join(work, name) for name in ("ours", "theirs"))

    def train(mesh, *arguments):
        ranks = np.prod([int(n) for n in mesh.split("x")])
        done = subprocess.run(launcher + [str(ranks), program, "--mesh", mesh, *common, *arguments],
                              capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"FAILED: train on {mesh} ended with status {done.returncode}: {done.stderr}")
        return done.stdout

    # Steps 31 and 41 are in different epochs of the text, so that it is shuffled in between.
    undisturbed = losses_of(train("1x1", "--steps", "46"))
    train("2x2", "--steps", "31", "--checkpoint-dir", ours, "--checkpoint-every", "31")
    sys.path.insert(0, example)
    import with_tensorflow
    sys.argv = ["with_tensorflow.py", ours, theirs, *common, "--steps", "10", "--sample", "20"]
    from contextlib import redirect_stdout
    from io import StringIO
    with redirect_stdout(StringIO()) as output:
        with_tensorflow.main()  # restores with assert_consumed
    said = output.getvalue()
    losses = losses_of(said)
    if sorted(losses) != list(range(32, 42)) or "The model writes:\n" not in said:
        sys.exit(f"FAILED: with_tensorflow.py says {said}")
    compare({32: losses[32]}, undisturbed, ROUNDING)
    compare(losses, undisturbed, CARRIED_ON)

    # With the same weights, moments, rate and place in the text, any mesh has the same losses; and
    # what they save at the end has the same bits.
    ends, readers = [], []
    for mesh in ("1x3", "2x2"):
        directory = os.path.join(work, mesh)
        shutil.copytree(theirs, directory)
        output = train(mesh, "--steps", "46", "--checkpoint-dir", directory, "--checkpoint-every", "46")
        if f"restored step 41 from {directory}/ckpt-41\n" not in output:
            sys.exit(f"FAILED: train says {output}")
        ends.append(losses_of(output))
        readers.append(tf.train.load_checkpoint(os.path.join(directory, "ckpt-46")))
    compare(ends[0], undisturbed, CARRIED_ON)
    if ends[0] != ends[1] or sorted(ends[0]) != list(range(42, 47)):
        sys.exit(f"FAILED: {ends[0]} is not {ends[1]}")
    # 6 weights with two moments each, 2 + 3 + 2 other variables, and TensorFlow's save_counter.
    keys = [sorted(key for key in reader.get_variable_to_shape_map() if key.endswith("/VARIABLE_VALUE"))
            for reader in readers]
    if keys[0] != keys[1] or len(keys[0]) != 26:
        sys.exit(f"FAILED: saved were {keys[0]} and {keys[1]}")
    for key in keys[0]:
        if len({np.asarray(reader.get_tensor(key)).tobytes() for reader in readers}) != 1:
            sys.exit(f"FAILED: {key} differs between meshes")

    with open(os.path.join(work, "losses"), "w", encoding="utf-8") as file:
        file.write(said)
    picture = os.path.join(work, "losses.svg")
    plot = subprocess.run([sys.executable, os.path.join(example, "plot.py"), picture,
                           f"TensorFlow={file.name}", f"the same={file.name}"],
                          check=True, capture_output=True, text=True)
    with open(picture, encoding="utf-8") as file:
        drawn = file.read()
    if drawn.count("<polyline") != 2 or "TensorFlow (10 steps)" not in drawn:
        sys.exit(f"FAILED: plot.py drew {drawn} and said {plot.stdout}")
    shutil.rmtree(work)
    print(f"TensorFlow {tf.__version__} and the program agree on {len(losses)} losses")


if __name__ == "__main__":
    main()
