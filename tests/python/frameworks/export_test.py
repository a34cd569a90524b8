"""What from_pretrained reads: safetensors of a checkpoint, in one file and in several with their index; and back."""

import os
import subprocess
import tempfile

import stories  # noqa: F401 first: it sets what torch reads when it is imported

import torch
import transformers

import cairn
import cairn.torch

TOOL = os.environ["CAIRN_TOOL"]
CONFIGS = [transformers.GPT2Config(n_layer=2, n_head=2, n_embd=32, n_positions=8, vocab_size=64, bos_token_id=0,
                                   eos_token_id=0),  # tied weights
           transformers.LlamaConfig(num_hidden_layers=2, num_attention_heads=2, hidden_size=32, intermediate_size=64,
                                    vocab_size=64, max_position_embeddings=8)]


def convert(*arguments):
    subprocess.run([TOOL, "convert", *arguments], check=True, stdout=subprocess.DEVNULL)


def require_same(model, other, names):
    there = other.state_dict()
    for name, one in model.state_dict().items():
        assert name not in names or there[name].dtype == one.dtype and torch.equal(there[name], one), name


def exported(config, place, dtype):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    with cairn.torch.Manager(f"{place}/run") as manager:
        prefix = manager.save(7, {"model": model, "step": 7})
    for name, options in (("one", []), ("several", ["--max-shard-size", "40KiB"])):
        folder = f"{place}/{name}"
        os.mkdir(folder)
        convert(prefix, f"{folder}/model.safetensors", "--under", "model", *options)
        config.save_pretrained(folder)
        files = [one for one in os.listdir(folder) if one.endswith(".safetensors")]
        assert (len(files) > 1) == bool(options) == os.path.exists(f"{folder}/model.safetensors.index.json"), files
        other, told = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
        assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"], told
        require_same(model, other, model.state_dict())
        tokens = torch.arange(8)[None]
        assert torch.equal(model.eval()(tokens).logits, other.eval()(tokens).logits)

    # And what save_pretrained writes, in one file or several, is where a run begins.
    model.save_pretrained(f"{place}/hub", max_shard_size="40KB")
    index = f"{place}/hub/model.safetensors.index.json"
    os.mkdir(f"{place}/start")
    convert(index, f"{place}/start/ckpt-0", "--under", "model")
    with torch.no_grad():
        for one in other.parameters():
            one.zero_()
    with cairn.torch.Manager(f"{place}/start") as manager:
        assert manager.restore_latest({"model": other})["step"] == 0
    require_same(model, other, model.state_dict())


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for number, config in enumerate(CONFIGS):
        for dtype in (torch.float32, torch.bfloat16):
            with tempfile.TemporaryDirectory() as directory:
                exported(config, directory, dtype)
                print(f"{type(config).__name__} of {dtype}: the same in one file, in several, and back", flush=True)
    print("right")
