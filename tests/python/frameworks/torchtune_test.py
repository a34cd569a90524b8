"""torchtune: a recipe, as `tune cp` gives it."""

import contextlib
import glob
import logging
import os
import sys
import tempfile
import types

import stories  # first: it sets what torch reads when it is imported

import omegaconf
import torch
import torchtune._cli.tune
import torchtune.models.llama3

import cairn.torch

with tempfile.TemporaryDirectory() as place:
    sys.argv[1:] = ["cp", "full_finetune_single_device", f"{place}/recipe.py"]
    with contextlib.redirect_stdout(None):
        torchtune._cli.tune.main()
    recipe = types.ModuleType("recipe")
    with open(f"{place}/recipe.py") as file:
        exec(compile(file.read(), "recipe.py", "exec"), vars(recipe))


class Recipe(recipe.FullFinetuneRecipeSingleDevice):
    def setup(self, cfg):
        super().setup(cfg)
        self.manager = cairn.torch.Manager(f"{cfg.output_dir}/run", max_to_keep=2)
        self.state = {"model": self._model, "optimizer": self._optimizer, "schedule": self._lr_scheduler,
                      "random": cairn.torch.RandomStates(), "epochs_run": 0, "global_step": 0}
        self.manager.restore_latest(self.state)
        self.epochs_run, self.global_step = self.state["epochs_run"], self.state["global_step"]

    def save_checkpoint(self, epoch):
        self.state.update(epochs_run=self.epochs_run, global_step=self.global_step)
        self.manager.save(self.global_step, self.state)


class Alone(recipe.FullFinetuneRecipeSingleDevice):
    def save_checkpoint(self, epoch):
        pass


def net(dropout):
    return torchtune.models.llama3.llama3(vocab_size=32, num_layers=2, num_heads=2, num_kv_heads=1, embed_dim=16,
                                          max_seq_len=8, attn_dropout=dropout)


def texts(tokenizer):
    draw = torch.Generator().manual_seed(3)
    rows = torch.randint(1, 32, (2 * stories.EVERY, 8), generator=draw).tolist()
    return [{"tokens": row, "labels": row} for row in rows]


def tokenizer():
    return types.SimpleNamespace(pad_id=0)


def schedule(optimizer, num_training_steps, last_epoch):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_training_steps, last_epoch=last_epoch)


class Told:
    def log_config(self, config):
        pass

    def log_dict(self, payload, step):
        stories.tell(step, payload["loss"])

    def close(self):
        pass


def trained(directory, keeper, dropout):
    start, out = f"{directory}/start", f"{directory}/out"
    os.makedirs(start, exist_ok=True)
    torch.manual_seed(5)
    torch.save(net(dropout).state_dict(), f"{start}/start.pt")
    here, saved = __name__, sorted(glob.glob("epoch_*/*.bin", root_dir=out))
    config = omegaconf.OmegaConf.create({
        "device": "cpu", "dtype": "fp32", "seed": 7, "output_dir": out, "compile": False, "shuffle": True,
        "epochs": stories.STEPS // stories.EVERY, "max_steps_per_epoch": None, "batch_size": 2,
        "gradient_accumulation_steps": 1, "optimizer_in_bwd": False,
        "resume_from_checkpoint": len(saved) > 0,
        "model": {"_component_": f"{here}.net", "dropout": dropout}, "tokenizer": {"_component_": f"{here}.tokenizer"},
        "dataset": {"_component_": f"{here}.texts"}, "metric_logger": {"_component_": f"{here}.Told"},
        "lr_scheduler": {"_component_": f"{here}.schedule"},
        "optimizer": {"_component_": "torch.optim.AdamW", "lr": 0.02},
        "loss": {"_component_": "torchtune.modules.loss.CEWithChunkedOutputLoss"},
        "checkpointer": {"_component_": "torchtune.training.FullModelTorchTuneCheckpointer", "checkpoint_dir": start,
                         "checkpoint_files": saved[-1:] or ["start.pt"], "model_type": "LLAMA3", "output_dir": out}})
    kind = {"cairn": Recipe, "framework": recipe.FullFinetuneRecipeSingleDevice, "nobody": Alone}[keeper]
    run = kind(config)
    run.setup(config)
    run.train()
    run.cleanup()
    stories.tell_end(run._model.parameters())


def without_chance(directory, keeper):
    trained(directory, keeper, 0.0)


def with_dropout(directory, keeper):
    trained(directory, keeper, 0.2)


if __name__ == "__main__":
    logging.disable()
    stories.judge(without_chance)
    stories.judge(with_dropout, framework_is_exact=False)
    print("right")
