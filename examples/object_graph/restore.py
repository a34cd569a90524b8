"""Restores what object_graph saved. usage: restore.py DIRECTORY"""
import sys

import tensorflow as tf


class Dense(tf.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.kernel = tf.Variable(tf.zeros([inputs, outputs]))
        self.bias = tf.Variable(tf.zeros([outputs]))


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Dense(6, 4), Dense(4, 2)]
        self.last = self.layers[-1]


model = Model()
step = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(model=model, step=step)
checkpoint.restore(tf.train.latest_checkpoint(sys.argv[1])).assert_consumed()
print("step", step.numpy(), "kernel", model.layers[0].kernel.numpy().sum())
