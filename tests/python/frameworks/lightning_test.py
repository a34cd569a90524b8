"""Lightning's Trainer, with Cairn as its CheckpointIO, and in strategies whose ranks all save."""

import logging
import warnings

import stories  # first: it sets what torch reads when it is imported

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy, SingleDeviceStrategy
from torch.distributed.fsdp import fully_shard

import cairn
import cairn.lightning


class Alone(cairn.lightning.AllRanks, SingleDeviceStrategy):
    pass


class Together(cairn.lightning.AllRanks, DDPStrategy):
    pass


class Sharded(cairn.lightning.AllRanks, ModelParallelStrategy):
    pass


class Net(lightning.LightningModule):
    def __init__(self, dropout):
        super().__init__()
        self.save_hyperparameters()
        self.layers = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.LayerNorm(16), torch.nn.ReLU(),
                                          torch.nn.Dropout(dropout), torch.nn.Linear(16, 2))

    def configure_model(self):
        if isinstance(self.trainer.strategy, ModelParallelStrategy):
            fully_shard(self.layers, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch, number):
        inputs, targets = batch
        loss = (self.layers(inputs) - targets).square().mean()
        self.told = loss
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, stories.STEPS)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Told(lightning.Callback):
    def on_train_batch_start(self, trainer, module, batch, number):
        self.tell(trainer, module)

    def on_train_end(self, trainer, module):
        self.tell(trainer, module)
        stories.tell_end(one.full_tensor() if hasattr(one, "full_tensor") else one for one in module.parameters())

    def tell(self, trainer, module):
        """When what belongs to the step, its save too, is done."""
        if getattr(module, "told", None) is not None:
            stories.tell(trainer.global_step, module.told)
            module.told = None


def trained(directory, keeper, strategy, plugins, dropout, shuffle):
    lightning.seed_everything(5, verbose=False)
    draw = torch.Generator().manual_seed(3)
    ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    data = torch.utils.data.TensorDataset(*(torch.randn(6 * ranks, size, generator=draw) for size in (6, 2)))
    model = Net(dropout)
    keep = ModelCheckpoint(directory, save_last=True, save_top_k=2, monitor="step", mode="max",
                           every_n_epochs=1, save_on_train_epoch_end=True) if keeper != "nobody" else None
    trainer = lightning.Trainer(
        accelerator="cpu", devices=ranks, strategy=strategy, plugins=plugins, max_epochs=stories.STEPS // stories.EVERY, logger=False,
        callbacks=[keep, Told()] if keep else [Told()], enable_checkpointing=bool(keep), enable_progress_bar=False,
        enable_model_summary=False)
    trainer.fit(model, torch.utils.data.DataLoader(data, batch_size=2, shuffle=shuffle),
                ckpt_path="last" if keep else None)


def by_io(directory, keeper):
    """Without chance: Lightning saves no random generators."""
    strategy = DDPStrategy() if torch.distributed.is_initialized() else "auto"
    plugins = []
    if keeper == "cairn":
        plugins = [cairn.lightning.CheckpointIO()]
    trained(directory, keeper, strategy, plugins, 0, False)


def by_all_ranks(directory, keeper):
    several = torch.distributed.is_initialized()
    if keeper == "cairn":
        strategy = Together() if several else Alone(device=torch.device("cpu"))
    else:
        strategy = DDPStrategy() if several else "auto"
    trained(directory, keeper, strategy, [], 0.3, True)


def sharded(directory, keeper):
    kind = Sharded if keeper == "cairn" else ModelParallelStrategy
    trained(directory, keeper, kind(data_parallel_size=2, tensor_parallel_size=1), [], 0.3, True)


def refused():
    io = cairn.lightning.CheckpointIO()
    with stories.tempfile.TemporaryDirectory() as directory:
        tied = torch.ones(3)
        given = {"global_step": 3, "state_dict": {"a/b": tied, "c": tied}, "callbacks": {}, "lr_schedulers": [{1: None}]}
        told = []
        cairn.set_log(lambda level, message: level != "info" and told.append(message))
        for number in range(2):  # the second takes the place of the first, though it is of one step
            tied.fill_(number)
            io.save_checkpoint(given, f"{directory}/last.ckpt")
        io.save_checkpoint({**given, "global_step": 4}, f"{directory}/last.ckpt")
        assert not told, told
        index, = (f"{directory}/last.ckpt/{one}" for one in stories.os.listdir(f"{directory}/last.ckpt")
                  if one.endswith(".index"))
        with open(index, "wb"):  # of which nothing can be read
            pass
        io.save_checkpoint(given, f"{directory}/last.ckpt")
        got = io.load_checkpoint(f"{directory}/last.ckpt")
        assert stories.os.listdir(directory) == ["last.ckpt"] and list(got) == list(given), got
        assert got["lr_schedulers"] == [{1: None}] and got["callbacks"] == {}, got
        assert all(torch.equal(one, tied) for one in got["state_dict"].values()), got
        for expected, call, arguments in (
                ("not_found", io.load_checkpoint, [f"{directory}/nothing.ckpt"]),
                ("invalid_argument", io.save_checkpoint, [given, f"{directory}/a.ckpt", {"some": "option"}])):
            try:
                call(*arguments)
                raise AssertionError(expected)
            except cairn.Error as error:
                assert error.code == expected, (error.code, error)
        io.remove_checkpoint(f"{directory}/last.ckpt")
        assert not stories.os.listdir(directory)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    stories.run(lambda *nothing: refused())
    stories.judge(by_io)
    stories.judge(by_io, 2)
    stories.judge(by_all_ranks, framework_is_exact=False)
    stories.judge(by_all_ranks, 2, framework_is_exact=False)
    stories.judge(sharded, 2, framework_is_exact=False)
    print("right")
