"""The model of main.cpp in TensorFlow: goes on from the newest checkpoint of the C++ program, and
saves one, in a directory of its own, that the C++ program goes on from.

usage: with_tensorflow.py FROM TO [--steps N] [--sample N] [--text DIRECTORY]
"""
import argparse
import math
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

LANES, CONTEXT, VOCABULARY, HEADS, HEAD_SIZE, BLOCKS = 4, 64, 96, 8, 8, 2
END_OF_LINE, WIDTH = VOCABULARY - 1, HEADS * HEAD_SIZE


def zeros(*shape, dtype=tf.float32):
    return tf.Variable(tf.zeros(shape, dtype))


class Block(tf.Module):
    def __init__(self):
        super().__init__()
        self.into = zeros(HEADS, WIDTH, 4 * HEAD_SIZE)
        self.out = zeros(HEADS, 2 * HEAD_SIZE, WIDTH)

    def __call__(self, x):  # b: window, n and s: its tokens, h: head
        inner = tf.einsum("bnc,hcd->bhnd", x, self.into)
        query, key, value, hidden = tf.split(inner, 4, -1)
        scores = tf.einsum("bhnd,bhsd->bhns", query, key)
        past = tf.linalg.band_part(tf.ones_like(scores), -1, 0) > 0
        shares = tf.nn.softmax(tf.where(past, scores, -1e30))
        mean = tf.einsum("bhns,bhsd->bhnd", shares, value)
        outer = tf.concat([mean, tf.nn.relu(hidden)], -1)
        return x + tf.einsum("bhnd,hdc->bnc", outer, self.out)


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.embedding = zeros(1, VOCABULARY + CONTEXT, WIDTH)
        self.blocks = [Block() for _ in range(BLOCKS)]
        self.readout = zeros(1, WIDTH, VOCABULARY)

    def __call__(self, characters):
        character, place = tf.split(self.embedding[0], [VOCABULARY, CONTEXT])
        x = tf.gather(character, characters) + place[:characters.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x @ self.readout[0]

    def loss(self, windows):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            windows[:, 1:], self(windows[:, :-1])))

    def weights(self):  # in the order of the C++ program
        inner = [w for block in self.blocks for w in (block.into, block.out)]
        return [self.embedding, *inner, self.readout]


class Schedule(tf.Module):
    def __init__(self):
        super().__init__()
        self.peak = zeros()
        self.warmup, self.period = zeros(dtype=tf.int64), zeros(dtype=tf.int64)

    def rate(self, step):
        peak, warmup, period = (float(v.numpy()) for v in (self.peak, self.warmup, self.period))
        angle = min(1.0, step / period) * math.pi
        return peak * min(1.0, (step + 1) / warmup) * (0.55 + 0.45 * math.cos(angle))


def mixed(number):
    """splitmix64: one step and its final mixing."""
    z = (number + 0x9e3779b97f4a7c15) % 2**64
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    z = (z ^ z >> 27) * 0x94d049bb133111eb % 2**64
    return z ^ z >> 31


def part(number, count):
    return number * count >> 64


def order_of(count, seed, epoch):
    """The order in which a cairn::Cursor deals the samples of an epoch
    (src/model/permutation.hpp)."""
    key = mixed((mixed(seed) + epoch) % 2**64)
    if count <= 256:
        order = list(range(count))
        for i in range(count - 1, 0, -1):
            other = part(mixed((key + i) % 2**64), i + 1)
            order[i], order[other] = order[other], order[i]
        return order
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    keys = [mixed((key + i) % 2**64) for i in range(12)]

    def permuted(number):
        row, column = divmod(number, columns)
        for even, odd in zip(keys[::2], keys[1::2]):
            row = (row + part(mixed((column + even) % 2**64), rows)) % rows
            column = (column + part(mixed((row + odd) % 2**64), columns)) % columns
        number = row * columns + column
        return number if number < count else permuted(number)

    return [permuted(position) for position in range(count)]


class Batches(tf.Module):
    """The windows that come next, as in text.hpp; the variables are a cairn::Cursor (docs/cursor.md)."""

    def __init__(self, directory):
        super().__init__()
        files = sorted(f for f in Path(directory).iterdir() if f.is_file() and not f.is_symlink())
        text = np.frombuffer(b"".join(f.read_bytes() for f in files), np.uint8).astype(np.int32)
        printable = np.where((text > 32) & (text < 127), text - 32, 0)
        self._text = text = np.where(text == 10, END_OF_LINE, printable)
        self._count = len(text) // CONTEXT - 1
        digits = -(-self._count.bit_length() // 7)
        self.deal = zeros(1 + 8 + digits + 3, dtype=tf.uint8)  # version, seed, samples, and so on
        self.done = zeros(1, dtype=tf.int64)

    def next(self):
        seed = int.from_bytes(self.deal.numpy()[1:9].tobytes(), "little")
        epoch, position = divmod(int(self.done.numpy()[0]), self._count + 1)
        windows = []
        while len(windows) < LANES:
            if position == self._count:
                epoch, position = epoch + 1, 0
            window = order_of(self._count, seed, epoch)[position]
            start = window * CONTEXT + mixed(epoch << 32 | window) % CONTEXT
            windows.append(self._text[start:start + CONTEXT + 1])
            position += 1
        self.done.assign([epoch * (self._count + 1) + position])
        return np.stack(windows)


def sample(model, length):
    """A text that the model writes, one character after the other."""
    random, written = np.random.default_rng(1), [END_OF_LINE]
    for _ in range(length):
        logits = model(np.array([written[-CONTEXT:]]))[0, -1].numpy()
        written.append(int(np.argmax(logits / 0.7 + random.gumbel(size=VOCABULARY))))
    return "".join("\n" if c == END_OF_LINE else chr(c + 32) for c in written[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("target", metavar="TO")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--text", default="/usr/share/common-licenses")
    arguments = parser.parse_args()

    model, schedule, batches = Model(), Schedule(), Batches(arguments.text)
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.weights())
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer, schedule=schedule, data=batches)
    prefix = tf.train.latest_checkpoint(arguments.source)
    checkpoint.restore(prefix).assert_consumed()
    step = int(optimizer.iterations.numpy())
    print(f"restored step {step} from {prefix}")

    if arguments.sample:
        print(f"The model writes:\n{sample(model, arguments.sample)}")
    for step in range(step, step + arguments.steps):
        windows = batches.next()
        with tf.GradientTape() as tape:
            loss = model.loss(windows)
        optimizer.learning_rate.assign(schedule.rate(step))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.weights()), model.weights()))
        print(f"step {step + 1} loss {float(loss).hex()} = {float(loss):.4f}")
    manager = tf.train.CheckpointManager(checkpoint, arguments.target, max_to_keep=None)
    print("saved", manager.save(checkpoint_number=int(optimizer.iterations.numpy())))


if __name__ == "__main__":
    main()
