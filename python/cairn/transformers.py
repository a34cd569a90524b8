"""Checkpoints of Hugging Face's Trainer.

    manager = cairn.torch.Manager("run", max_to_keep=3)
    trainer = cairn.transformers.Trainer(model, arguments, train_dataset=texts, manager=manager)
    trainer.train(resume_from_checkpoint=True)
"""

import dataclasses
import json
import os
import tempfile

import accelerate
import transformers
from transformers.trainer_callback import ExportableState

from . import torch
from .leaves import _refused

__all__ = ["Checkpoints", "Trainer"]

_OURS = ("_save_checkpoint", "_load_from_checkpoint", "_load_optimizer_and_scheduler", "_load_scaler",
         "_load_rng_state")
_STATE_FILE = "trainer_state.json"


class Checkpoints:
    """For your own Trainer: class MyTrainer(cairn.transformers.Checkpoints, transformers.Trainer).

    manager  a cairn.torch.Manager, made on all processes after TrainingArguments. The Trainer's options
             decide when to save; the manager decides how many checkpoints are kept
    """

    def __init__(self, *arguments, manager, **options):
        lacking = [name for name in _OURS if not hasattr(transformers.Trainer, name)]
        if lacking:
            raise _refused("this release of transformers cannot be used",
                           f"the Trainer of {transformers.__version__} has no {lacking[0]}",
                           "Use 5.24, with which this is tested.", code="unsupported")
        super().__init__(*arguments, **options)
        self.manager, self._restored_step = manager, None
        for is_set, option, way_out in (
                (self.args.load_best_model_at_end, "load_best_model_at_end",
                 "Restore the best step after the training: manager.restore(trainer.state.best_global_step, …)."),
                (self.args.save_total_limit is not None, "save_total_limit", "Give max_to_keep to the manager."),
                (self.args.save_only_model, "save_only_model", "Use trainer.save_model."),
                (self.args.push_to_hub and str(self.args.hub_strategy.value) != "end", "push_to_hub at each save",
                 'Use hub_strategy="end".'),
                (self.is_deepspeed_enabled, "deepspeed", "Use FSDP.")):
            if is_set:
                raise _refused(f"the Trainer's {option} cannot be used", "its checkpoints are Cairn's", way_out)

    def train(self, resume_from_checkpoint=None, *arguments, **options):
        """With resume_from_checkpoint=True training goes on from the newest checkpoint, or begins if there
        is none."""
        if not resume_from_checkpoint:
            return super().train(None, *arguments, **options)
        if resume_from_checkpoint is not True:
            raise _refused("the Trainer cannot resume", f"resume_from_checkpoint is {resume_from_checkpoint!r}",
                           "Give True: the manager knows its checkpoints.")
        progress = {"trainer": ""}
        report = self.manager.restore_latest(progress, unused="silent")
        if report is None:
            return super().train(None, *arguments, **options)
        self._restored_step = report["step"]
        # The Trainer reads its progress from a file, before it makes optimizer and schedule.
        with tempfile.TemporaryDirectory() as place:
            with open(os.path.join(place, _STATE_FILE), "w", encoding="utf-8") as file:
                file.write(progress["trainer"])
            return super().train(place, *arguments, **options)

    def _parts(self):
        parts = {"model": self.model, "optimizer": self.optimizer, "scheduler": self.lr_scheduler}
        scaler = getattr(self.accelerator, "scaler", None)
        return {**parts, "scaler": scaler} if scaler is not None else parts

    def _progress(self):
        """Rank 0's progress, since its history has times, which differ on each rank."""
        callbacks = [*self.callback_handler.callbacks, self.control]
        self.state.stateful_callbacks = transformers.TrainerState(
            stateful_callbacks=[one for one in callbacks if isinstance(one, ExportableState)]).stateful_callbacks
        return accelerate.utils.broadcast_object_list([json.dumps(dataclasses.asdict(self.state))])[0]

    def _save_checkpoint(self, model, trial):
        if trial is not None:
            raise _refused("a search of hyperparameters cannot be saved", "each of its trials is a run",
                           "Train with what it found.")
        self.store_flos()
        self.manager.save(self.state.global_step, {
            **self._parts(), "random": torch.RandomStates(), "trainer": self._progress()})

    # The Trainer calls the first of these functions before there is an optimizer, and the last one when it
    # has found its place in the data.

    def _load_from_checkpoint(self, checkpoint, model=None):
        pass

    def _load_optimizer_and_scheduler(self, checkpoint):
        if checkpoint is not None:
            self.manager.restore(self._restored_step, self._parts(), unused="silent")

    def _load_scaler(self, checkpoint):
        pass

    def _load_rng_state(self, checkpoint):
        if checkpoint is not None:
            self.manager.restore(self._restored_step, {"random": torch.RandomStates()}, unused="silent")


class Trainer(Checkpoints, transformers.Trainer):
    """A transformers.Trainer whose checkpoints are those of a cairn.torch.Manager."""
