"""Keras's model.fit on PyTorch, beside its BackupAndRestore."""

import stories  # first: it sets what keras and torch read when they are imported

import keras
import numpy as np

import cairn
import cairn.keras
import cairn.torch

BATCHES = 3  # of an epoch, at whose end it is saved
assert BATCHES == stories.EVERY


class Told(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        stories.tell(self.epoch * BATCHES + batch + 1, logs["loss"])

    def on_train_end(self, logs=None):
        stories.tell_end(one.value for one in (*self.model.variables, *self.model.optimizer.variables))


def train(directory, keeper, dropout=0.3, shuffle=True):
    keras.utils.set_random_seed(7)
    draw = np.random.default_rng(3)
    inputs, targets = draw.normal(size=(12, 5)).astype("float32"), draw.normal(size=(12, 2)).astype("float32")
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, activation="relu"),
                              keras.layers.BatchNormalization(), keras.layers.Dropout(dropout), keras.layers.Dense(2)])
    rate = keras.optimizers.schedules.CosineDecay(0.05, stories.STEPS)
    model.compile(keras.optimizers.AdamW(rate), loss="mse", run_eagerly=True)
    callbacks = [Told()]
    if keeper == "cairn":
        manager = cairn.torch.Manager(directory, max_to_keep=2)
        callbacks.append(cairn.keras.Checkpoints(manager))
    elif keeper == "framework":
        callbacks.append(keras.callbacks.BackupAndRestore(f"{directory}/own"))
    model.fit(inputs, targets, epochs=stories.STEPS // BATCHES, batch_size=4, shuffle=shuffle, callbacks=callbacks,
              verbose=0)


def train_without_chance(directory, keeper):
    train(directory, keeper, dropout=0, shuffle=False)


def saved_last():
    """The last epoch is saved whatever the rhythm, and a model of other layers is refused."""
    with stories.tempfile.TemporaryDirectory() as directory, cairn.torch.Manager(directory) as manager:
        model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
        model.compile("adam", loss="mse")
        data = np.ones((4, 5), "float32"), np.ones((4, 2), "float32")
        model.fit(*data, epochs=3, callbacks=[cairn.keras.Checkpoints(manager, every=2)], verbose=0)
        assert [one["step"] for one in manager.steps()] == [2, 3], manager.steps()
        model.fit(*data, epochs=3, callbacks=[cairn.keras.Checkpoints(manager)], verbose=0)
        assert [one["step"] for one in manager.steps()] == [2, 3], manager.steps()
        other = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2), keras.layers.Dense(2)])
        other.compile("adam", loss="mse")
        try:
            other.fit(*data, epochs=3, callbacks=[cairn.keras.Checkpoints(manager)], verbose=0)
            raise AssertionError("restored")
        except cairn.Error as error:
            assert "dense" in str(error), error


if __name__ == "__main__":
    stories.run(lambda *nothing: saved_last())
    stories.judge(train_without_chance)
    stories.judge(train, framework_is_exact=False)  # it does not save the generator that shuffles
    print("right")
