"""Opens what programs in C, Fortran and Python saved, in both formats: each element, by TensorFlow and
h5py. So the tensors of tests/support/tensors.txt, saved on ranks.

usage: faces.py WORK_DIRECTORY C_PROGRAM PACKAGE TABLES [RANKS_PROGRAM...] -- LAUNCHER...
C_PROGRAM (tests/c/lengths.c) is run with WORK_DIRECTORY/c, made afresh. PACKAGE: where Python finds
cairn; "none": there is no package. TABLES: the directory of tensors.txt. Each RANKS_PROGRAM
(LANGUAGE=PROGRAM, of tests/c/ways.c, tests/fortran/many_ranks.f90) is started by LAUNCHER.
"""
import os
import shutil
import subprocess
import sys

import h5py
import numpy as np
import tensorflow as tf

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from face_arrays import BY_C, BY_PYTHON, WORDS_OF_C, WORDS_OF_PYTHON  # noqa: E402
from tensor_values import Values  # noqa: E402

SAVE = """
import sys, cairn, numpy as np
sys.path.insert(0, sys.argv[2])
from face_arrays import BY_PYTHON
state = dict(BY_PYTHON, turned=BY_PYTHON["turned"].T.copy().T, words=["one", "zw\\u00f6lf", ""])
state["halo"] = np.pad(BY_PYTHON["halo"], 2)[2:-2, 2:-2]
state["sliced"] = cairn.patches([cairn.slice(BY_PYTHON["sliced"][:, at:at + 2], (3, 5), (0, at))
                                 for at in range(0, 5, 2)])
for format in sys.argv[3:]:
    with cairn.CheckpointManager(f"{sys.argv[1]}/{format}", store={"format": format}) as manager:
        manager.save(3, state)
"""


def compare(what, key, found, right):
    found = np.asarray(found)
    if (found.dtype, found.shape) != (right.dtype, right.shape) or found.tobytes() != right.tobytes():
        sys.exit(f"FAILED: {what}: {key} is {found.dtype} {found.shape}\n{found}\nand not\n{right}")


def compare_words(what, found, right):
    found = [bytes(one) for one in found]
    if found != right:
        sys.exit(f"FAILED: {what}: words are {found}")


def check(language, bundle, hdf5, expected, words):
    reader = tf.train.load_checkpoint(bundle)
    what = f"{language}, by TensorFlow"
    for key, right in expected.items():
        if language == "C" and key == "u":
            continue  # a bundle has no bytes for gaps, so TensorFlow cannot read it
        compare(what, key, reader.get_tensor(key), right)
    compare_words(what, reader.get_tensor("words").tolist(), words)
    if not os.path.exists(hdf5):
        return 1
    what = f"{language}, by h5py"
    with h5py.File(hdf5) as file:
        for key, right in expected.items():
            compare(what, key, file[key][()], right)
        compare_words(what, [one.encode() for one in file["words"].asstr()[()]], words)
    return 2


SAVE_TENSORS = """
import sys, types, cairn
sys.path.insert(0, sys.argv[2])
from tensors import Table
state = Table(sys.argv[3]).state(types.SimpleNamespace(rank=0, size=1), 4)
for format in sys.argv[4:]:
    with cairn.CheckpointManager(f"{sys.argv[1]}/{format}", store={"format": format}) as manager:
        manager.save(4, state)
"""


def check_tensors(language, directory, table):
    """Checks the ways named "bundle" and "hdf5", if they are there."""
    reader = tf.train.load_checkpoint(f"{directory}/bundle/ckpt-4")
    path = f"{directory}/hdf5/ckpt-4.h5"
    file = h5py.File(path) if os.path.exists(path) else None
    for number, (key, kind, dtype, shape) in enumerate(table.lines):
        right = table.values(number, 4)
        if dtype == "string":
            right = [one.encode() for one in ([right] if not shape else right)]
            compare_words(f"{language}, by TensorFlow", np.ravel(reader.get_tensor(key)).tolist(), right)
            if file:
                found = np.ravel(file[key][()]).tolist()
                compare_words(f"{language}, by h5py", found, right)
            continue
        if kind != "sparse":  # a bundle has no bytes for gaps, so TensorFlow cannot read it
            compare(f"{language}, by TensorFlow", key, reader.get_tensor(key), np.asarray(right))
        if file:
            compare(f"{language}, by h5py", key, file[key][()], np.asarray(right))


def tensors_on_ranks(work, package, tables, programs, launcher, formats):
    table = Values(f"{tables}/tensors.txt")
    for program in programs:
        language, path = program.split("=")
        left = [""] if language == "Fortran" else []
        os.makedirs(f"{work}/{language}")
        ran = subprocess.run([*launcher, "3", path, f"{work}/{language}", tables,
                              "with" if "hdf5" in formats else "without", *left, ",".join(formats)],
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if ran.returncode != 0:
            sys.exit(f"FAILED: {path}\n{ran.stdout}")
        check_tensors(language, f"{work}/{language}", table)
    if package != "none":
        subprocess.run([sys.executable, "-B", "-c", SAVE_TENSORS, f"{work}/tensors", sys.path[0],
                        f"{tables}/tensors.txt", *formats], check=True,
                       env=dict(os.environ, PYTHONPATH=package))
        check_tensors("Python", f"{work}/tensors", table)
    return len(table.lines)


def in_one_process(package, of_python, formats):
    """cairn works beside TensorFlow, which was imported before and has its own libraries."""
    sys.path.append(package)
    import cairn

    for format in formats:
        opened = cairn.open(f"{of_python}/{format}")
        for key, right in BY_PYTHON.items():
            compare(f"Python, by cairn beside TensorFlow, {format}", key, opened[key][...], right)
    with cairn.CheckpointManager(f"{of_python}/beside") as manager:
        prefix = manager.save(1, BY_PYTHON)
    reader = tf.train.load_checkpoint(prefix)
    for key, right in BY_PYTHON.items():
        compare("Python, saved beside TensorFlow", key, reader.get_tensor(key), right)


def main(work, program, package, tables, *rest):
    programs, launcher = rest[:rest.index("--")], rest[rest.index("--") + 1:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    of_c, of_python = os.path.join(work, "c"), os.path.join(work, "python")
    subprocess.run([program, of_c], check=True)
    times = check("C", f"{of_c}/gaps-0/ckpt-1", f"{of_c}/gaps-1/ckpt-1.h5", BY_C, WORDS_OF_C)
    languages = ["C"]
    if package != "none":
        formats = ["bundle", "hdf5"][:times]
        subprocess.run([sys.executable, "-B", "-c", SAVE, of_python, os.path.dirname(os.path.abspath(__file__)),
                        *formats], check=True, env=dict(os.environ, PYTHONPATH=package))
        check("Python", f"{of_python}/bundle/ckpt-3", f"{of_python}/hdf5/ckpt-3.h5", BY_PYTHON,
              WORDS_OF_PYTHON)
        in_one_process(package, of_python, formats)
        languages.append("Python")
    count = tensors_on_ranks(work, package, tables, programs, launcher, ["bundle", "hdf5"][:times])
    print(f"{len(BY_C) + len(BY_PYTHON) + 2} arrays of {' and '.join(languages)}, in {times} formats, "
          f"and {count} tensors of every face")


if __name__ == "__main__":
    main(*sys.argv[1:])
