"""Checkpoints of objects that lost their optimizer by a rule, and by the tool: TensorFlow restores what
is left.

usage: thinned.py WORK_DIRECTORY TOOL PACKAGE
"""
import os
import shutil
import subprocess
import sys

import numpy as np
import tensorflow as tf


def main():
    work, tool = os.path.abspath(sys.argv[1]), sys.argv[2]
    sys.path.insert(0, sys.argv[3])
    import cairn

    shutil.rmtree(work, ignore_errors=True)
    weights = np.arange(12 * 4096, dtype=np.float32).reshape(12, 4096)

    def state(step):
        return {"model": {"w": weights + step}, "optimizer": {"m": -weights - step, "v": weights * step}}

    def save(name, **options):
        run = os.path.join(work, name)
        with cairn.CheckpointManager(run, store={"object_graph": True}, **options) as manager:
            for step in range(1, 5):
                manager.save(step, state(step))
        return run

    by_rule = save("rule", keep={"last": 0, "keys": ["optimizer/*"]})
    by_tool = save("tool", max_to_keep=0)
    subprocess.run([tool, "thin", by_tool, "--drop", "optimizer/*"], check=True, stdout=subprocess.DEVNULL)
    for run in by_rule, by_tool:
        for step in range(1, 5):
            prefix = os.path.join(run, f"ckpt-{step}")
            variables = dict(tf.train.list_variables(prefix))
            assert any(key.startswith("optimizer/") for key in variables) == (step > 2), (run, step, variables)
            model, optimizer = tf.train.Checkpoint(), tf.train.Checkpoint()
            model.w = tf.Variable(tf.zeros([12, 4096]))
            optimizer.m = tf.Variable(tf.fill([12, 4096], 7.0))
            optimizer.v = tf.Variable(tf.fill([12, 4096], 7.0))
            status = tf.train.Checkpoint(model=model, optimizer=optimizer).restore(prefix)
            status.expect_partial()
            assert np.array_equal(model.w.numpy(), weights + step), (run, step)
            there = -weights - step if step > 2 else np.full([12, 4096], 7.0)
            assert np.array_equal(optimizer.m.numpy(), there), (run, step)
            if step > 2:
                status.assert_consumed()
    shutil.rmtree(work)


if __name__ == "__main__":
    main()
