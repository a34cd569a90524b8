"""Object graphs both ways: what TensorFlow saves, ranks restore, change and save again, and
tf.train.Checkpoint restores with assert_consumed; and trees that only Cairn has seen.

usage: objects.py WORK_DIRECTORY COMMAND...
COMMAND starts object_program; its argument RANKS is replaced by the number of ranks.
"""
import glob
import os
import shutil
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

tf.get_logger().setLevel("ERROR")

# For each save: how many ranks, and which names the state uses for its tensors.
CHAIN = [(3, "path"), (5, "name"), (1, "other"), (7, "name"), (3, "other")]
checks = 0


def check(what, good, *details):
    global checks
    checks += 1
    if not good:
        sys.exit(f"FAILED: {what}: {' '.join(map(str, details))}")


def program(ranks, *arguments):
    command = [str(ranks) if word == "RANKS" else word for word in sys.argv[2:]]
    subprocess.run(command + list(arguments), check=True)


def values_of(prefix):
    reader = tf.train.load_checkpoint(prefix)
    keys = [k for k in reader.get_variable_to_dtype_map() if not k.startswith("_")]
    return {key: np.asarray(reader.get_tensor(key)) for key in keys}


def changed(value):
    if value.dtype == np.float32:
        return value * np.float32(0.5) + np.float32(1)
    if value.dtype == np.int64:
        return value + np.int64(1)
    return np.array([s + b"+" for s in value.ravel()], dtype=object).reshape(value.shape)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b)


def round_trip(work, name, make):
    """make(seed) -> (Checkpoint, {label: variable})."""
    folder = os.path.join(work, name)
    saved, variables = make(1)
    prefix = saved.save(os.path.join(folder, "tf", "ckpt"))
    graph = tf.train.load_checkpoint(prefix).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
    expected = values_of(prefix)
    labels = {label: variable.numpy() for label, variable in variables.items()}
    source = os.path.join(folder, "tf")
    for number, (ranks, how) in enumerate(CHAIN):
        target = os.path.join(folder, f"cairn-{number}")
        program(ranks, "change", source, target, how)
        source, prefix = target, os.path.join(target, f"ckpt-{number + 2}")
        files = len(glob.glob(glob.escape(prefix) + ".data-*"))
        check("a data file a rank", files == ranks + 1, name, ranks, files)
        expected = {key: changed(value) for key, value in expected.items()}
        labels = {label: changed(np.asarray(value)) for label, value in labels.items()}
        found = values_of(prefix)
        check("keys", found.keys() == expected.keys(), name, found.keys() ^ expected.keys())
        for key, value in expected.items():
            check("value", same(found[key], value), name, ranks, key, found[key], value)
        again = tf.train.load_checkpoint(prefix).get_tensor("_CHECKPOINTABLE_OBJECT_GRAPH")
        check("the graph is carried through", again == graph, name)

        restored, variables = make(100 + number)
        restored.restore(prefix).assert_consumed()
        check("labels", variables.keys() == labels.keys(), name)
        for label, variable in variables.items():
            check("weight", same(np.asarray(variable.numpy()), labels[label]), name, ranks, label)
        check("save_counter", restored.save_counter.numpy() == 1 + number + 1, restored.save_counter)


def keras(seed):
    tf.keras.utils.set_random_seed(seed)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((6,)), layers.Dense(5, name="hidden"), layers.BatchNormalization(name="norm"),
         layers.Dense(2, name="out")])
    optimizer = tf.keras.optimizers.Adam(0.01)
    model.compile(optimizer, "mse")
    x = np.random.default_rng(seed).normal(size=(8, 6)).astype(np.float32)
    model.fit(x, x[:, :2], verbose=0, epochs=2)
    step = tf.Variable(seed, dtype=tf.int64)
    variables = {f"model {i}": v for i, v in enumerate(model.weights)}
    variables.update({f"optimizer {i}": v for i, v in enumerate(optimizer.variables)})
    variables["step"] = step
    return tf.train.Checkpoint(model=model, optimizer=optimizer, step=step), variables


class SortedTable:
    """A hash table, whose keys and values are stored in any order."""

    def __init__(self, table, part):
        self.table, self.part = table, part

    def numpy(self):
        exported = [tensor.numpy() for tensor in self.table.export()]
        return exported[self.part][np.argsort(exported[0])]


def with_slots(seed):
    rng = np.random.default_rng(seed)
    v = tf.Variable(rng.normal(size=(4, 3)).astype(np.float32), name="first")
    w = tf.Variable(rng.normal(size=(7,)).astype(np.float32), name="second")
    text = tf.Variable(["x", "yy", str(seed)])
    optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(v * v) + tf.reduce_sum(w * w)
    optimizer.apply_gradients(zip(tape.gradient(loss, [v, w]), [v, w]))
    variables = {"v": v, "w": w, "text": text}
    for slot in optimizer.get_slot_names():
        variables[f"v {slot}"] = optimizer.get_slot(v, slot)
        variables[f"w {slot}"] = optimizer.get_slot(w, slot)
    for i, variable in enumerate(optimizer.variables()):
        variables[f"optimizer {i}"] = variable
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(["a", "b", str(seed)], tf.constant([1, 2, seed], tf.int64))
    variables["table keys"], variables["table values"] = SortedTable(table, 0), SortedTable(table, 1)
    net = tf.train.Checkpoint(v=v, w=w, **{"odd/name.x": v})
    return tf.train.Checkpoint(net=net, opt=optimizer, text=text, table=table), variables


class Layer(tf.Module):
    def __init__(self, rows):
        super().__init__()
        self.w = tf.Variable(tf.zeros([rows, 3]))


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Layer(4), Layer(5)]
        self.first = self.layers[0]
        setattr(self, "odd.name", tf.Variable(tf.zeros([2])))


def numbered(base, *shape):
    return (np.float32(base) + np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


class Tree:
    """TensorFlow's objects for object_program's tree."""

    def __init__(self):
        self.a, self.model = tf.Variable(tf.zeros([9])), Model()
        self.w, self.steps = self.model.layers[0].w, tf.Variable(0, dtype=tf.int64)
        self.words = tf.Variable(["", "", ""])
        self.optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
        self.optimizer.apply_gradients([(tf.zeros([9]), self.a), (tf.zeros([4, 3]), self.w)])
        self.checkpoint = tf.train.Checkpoint(
            a=self.a, model=self.model, steps=self.steps, words=self.words, opt=self.optimizer)

    def check(self, *where):
        slot = self.optimizer.get_slot
        for label, variable, value in [
            ("a", self.a, numbered(0.5, 9)), ("w0", self.w, numbered(0, 4, 3)),
            ("w1", self.model.layers[1].w, numbered(100, 5, 3)),
            ("odd.name", getattr(self.model, "odd.name"), numbered(7, 2)),
            ("m of w", slot(self.w, "m"), numbered(1000, 4, 3)),
            ("v of w", slot(self.w, "v"), numbered(2000, 4, 3)),
            ("m of a", slot(self.a, "m"), numbered(1100, 9)),
            ("v of a", slot(self.a, "v"), numbered(2100, 9)),
        ]:
            check("value", same(variable.numpy(), value), *where, label, variable, value)
        check("steps", self.steps.numpy() == 12, *where, self.steps)
        check("words", list(self.words.numpy()) == [b"one", b"", b"three"], *where, self.words)


def only_paths(work):
    for ranks in (1, 3, 5, 7):
        folder = os.path.join(work, "paths", str(ranks))
        program(ranks, "paths", folder)
        prefix, tree = tf.train.latest_checkpoint(folder), Tree()
        status = tree.checkpoint.restore(prefix)
        status.assert_consumed()
        status.assert_existing_objects_matched()
        tree.check(ranks)
        check("save_counter", tree.checkpoint.save_counter.numpy() == 1, ranks)

        # An object that is missing there, or left out here, is noticed.
        less = tf.train.Checkpoint(a=tf.Variable(tf.zeros([9])), model=Model())
        try:
            less.restore(prefix).assert_consumed()
        except AssertionError as error:
            check("unresolved", "Unresolved object in checkpoint" in str(error), error)
        else:
            sys.exit("FAILED: a checkpoint with more in it is consumed")

        # TensorFlow saves the same tree itself, and reads it back, with the counter and without.
        saved = tree.checkpoint.save(os.path.join(folder, "tf", "saved"))
        written = tree.checkpoint.write(os.path.join(folder, "tf", "written"))
        target = os.path.join(folder, "back")
        program(ranks % 5 + 1, "through", saved, written, target)
        back = Tree()
        back.checkpoint.restore(os.path.join(target, "saved-3")).assert_consumed()
        back.check(ranks, "saved")
        check("save_counter", back.checkpoint.save_counter.numpy() == 3, ranks)
        for name in ("written", "carried"):
            back = Tree()
            back.checkpoint.read(os.path.join(target, name)).assert_consumed()
            back.check(ranks, name)


def main():
    work = os.path.abspath(sys.argv[1])
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    only_paths(work)
    round_trip(work, "slots", with_slots)
    round_trip(work, "keras", keras)
    shutil.rmtree(work)
    print(f"TensorFlow {tf.__version__}, Keras {tf.keras.__version__}: {checks} checks")


if __name__ == "__main__":
    main()
