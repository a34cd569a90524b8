"""Hugging Face's Trainer with a GPT-2 of a few weights."""

import os

import stories  # first: it sets what torch reads when it is imported

import torch
import transformers

import cairn
import cairn.torch
import cairn.transformers

CONFIG = {"n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 8, "vocab_size": 32, "bos_token_id": 0,
          "eos_token_id": 0}


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, number):
        tokens = torch.randint(0, 32, (8,), generator=torch.Generator().manual_seed(number))
        return {"input_ids": tokens, "labels": tokens}


class Told(transformers.TrainerCallback):
    def on_log(self, arguments, state, control, logs=None, **more):
        if "loss" in logs:
            self.loss = state.global_step, logs["loss"]

    def on_step_begin(self, arguments, state, control, **more):
        self.tell()

    def on_train_end(self, arguments, state, control, model=None, **more):
        self.tell()
        stories.tell_end(model.parameters())

    loss = None

    def tell(self):
        """When what belongs to the step, its save too, is done."""
        if self.loss is not None:
            stories.tell(*self.loss)
        self.loss = None


def options_of(directory, keeper):
    return transformers.TrainingArguments(
        output_dir=directory, max_steps=stories.STEPS, per_device_train_batch_size=2,
        save_strategy="no" if keeper == "nobody" else "steps", save_steps=stories.EVERY, logging_steps=1,
        learning_rate=0.01, use_cpu=True, report_to="none", disable_tqdm=True, seed=5, gradient_accumulation_steps=2)


def train(directory, keeper):
    transformers.logging.set_verbosity_error()
    torch.manual_seed(3)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG))
    own, texts = f"{directory}/own", Texts()
    newest = transformers.trainer_utils.get_last_checkpoint(own) if os.path.isdir(own) else None
    arguments = options_of(own, keeper)
    if keeper == "cairn":
        manager = cairn.torch.Manager(directory, max_to_keep=2)
        trainer = cairn.transformers.Trainer(model, arguments, train_dataset=texts, manager=manager)
        trainer.add_callback(Told())
        trainer.train(resume_from_checkpoint=True)
    else:
        trainer = transformers.Trainer(model, arguments, train_dataset=texts, callbacks=[Told()])
        trainer.train(resume_from_checkpoint=newest)


def refused():
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG))
    with stories.tempfile.TemporaryDirectory() as directory:
        arguments = options_of(directory, "cairn")
        with cairn.torch.Manager(directory) as manager:
            for option, value in (("save_total_limit", 3), ("save_only_model", True)):
                setattr(arguments, option, value)
                try:
                    cairn.transformers.Trainer(model, arguments, manager=manager)
                    raise AssertionError(option)
                except cairn.Error as error:
                    assert error.code == "invalid_argument" and option in error.problem, error
                setattr(arguments, option, None)
            trainer = cairn.transformers.Trainer(model, arguments, manager=manager)
            try:
                trainer.train(resume_from_checkpoint=directory)
                raise AssertionError("resumed")
            except cairn.Error as error:
                assert error.code == "invalid_argument" and directory in error.reason, error


if __name__ == "__main__":
    stories.run(lambda *nothing: refused())
    for ranks in (1, 2):
        stories.judge(train, ranks)
    print("right")
