"""Model files that cannot be used: one clear sentence each."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.tiny_models import TinyModels

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.gguf_file import GgufFile
from specmon.core.models.gguf_tokenizer import tokenizer_from_gguf
from specmon.core.models.pool import LoadedModel

Load = Callable[..., LoadedModel]
Weights = dict[str, torch.Tensor]


@pytest.fixture
def folder(tiny: TinyModels, tmp_path: Path) -> Path:
    """A copy of a good model folder, to be spoiled."""
    return Path(shutil.copytree(tiny.target("qwen2"), tmp_path / "model"))


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    raw = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in raw.items() if value is not ...}))


def edit_weights(folder: Path, edit: Callable[[Weights], object]) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    edit(weights)
    save_file(weights, path)


def refusal(load: Load, model: Path | str, recipe: str = "fp32") -> SpecmonError:
    """What loading says; one sentence and at most one hint, without a line break."""
    with pytest.raises(SpecmonError) as caught:
        load(model, recipe)
    error = caught.value
    assert "\n" not in error.message
    assert error.message.endswith(".")
    assert "Traceback" not in str(error)
    return error


def test_missing_folder_is_a_wrong_call(load: Load, tmp_path: Path) -> None:
    error = refusal(load, tmp_path / "nowhere")

    assert isinstance(error, UsageError)
    assert error.message == f"There is no model '{tmp_path / 'nowhere'}' here."


def test_file_that_is_no_model_is_a_wrong_call(load: Load, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")

    error = refusal(load, tmp_path / "notes.txt")

    assert isinstance(error, UsageError)
    assert error.message.endswith("notes.txt is no model.")


def test_folder_of_a_training_names_what_is_inside(load: Load, folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "int8")

    assert f"give {tmp_path / 'int8'}." in str(refusal(load, tmp_path).hint)


def test_empty_folder_is_refused(load: Load, tmp_path: Path) -> None:
    assert "has no config.json" in refusal(load, tmp_path).message


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "\x00\xff", '"text"', 100_000 * "["])
def test_configuration_that_is_no_object_is_refused(load: Load, folder: Path, text: str) -> None:
    (folder / "config.json").write_text(text)

    assert "config.json" in refusal(load, folder).message


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"architectures": ["MambaForCausalLM"]},
            r"an architecture specmon does not know (MambaForCausalLM)",
        ),
        ({"architectures": None, "model_type": "gpt2"}, "an architecture specmon does not know (gpt2)"),
        ({"hidden_size": ...}, "has no field 'hidden_size'"),
        ({"hidden_size": "wide"}, "config.json has 'wide' as 'hidden_size', which is not a number"),
        ({"hidden_size": [64]}, "has [64] as 'hidden_size', which is not a number"),
        ({"num_hidden_layers": 1.5}, "has 1.5 as 'num_hidden_layers', which is not a whole number"),
        ({"vocab_size": float("inf")}, "has inf as 'vocab_size', which is not a number"),
        ({"eos_token_id": ["end"]}, "has 'end' as 'eos_token_id', which is not a number"),
        ({"eos_token_id": True}, "has True as 'eos_token_id', which is not a number"),
        ({"architectures": 3}, "has 3 as 'architectures', which is not a list"),
        ({"rope_parameters": [1e4]}, "has [10000.0] as 'rope_parameters', which is not an object"),
        ({"rope_parameters": {"rope_theta": -1}}, "gives a RoPE base that is not above 0"),
        ({"layer_types": True}, "has True as 'layer_types', which is not a list"),
        ({"num_attention_heads": 0}, "gives a size below one"),
        ({"num_hidden_layers": 0}, "gives a size below one"),
        ({"num_key_value_heads": 3}, "4 heads and 3 KV heads, which do not divide"),
        ({"head_dim": 15}, "an odd head size (15)"),
        ({"hidden_act": "gelu"}, "the activation 'gelu'; only silu"),
        ({"use_sliding_window": True}, "sliding-window attention"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4}}, "the RoPE kind 'dynamic'"),
    ],
)
def test_configuration_that_cannot_work_is_refused(
    load: Load, folder: Path, changes: dict[str, Any], says: str
) -> None:
    edit_config(folder, **changes)

    assert says in refusal(load, folder).message


def test_shape_mismatch_names_the_tensor(load: Load, folder: Path) -> None:
    edit_config(folder, intermediate_size=96)

    found = refusal(load, folder).message

    assert (
        "stores model.layers.0.mlp.gate_proj.weight as [128, 64] where its configuration says [96, 64]"
        in found
    )


def test_missing_tensor_is_named(load: Load, folder: Path) -> None:
    edit_weights(folder, lambda w: w.pop("model.layers.1.self_attn.k_proj.bias"))

    assert "has no tensor model.layers.1.self_attn.k_proj.bias" in refusal(load, folder).message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    "name", ["model.layers.2.mlp.down_proj.weight", "model.embed_tokens.weight", "model.norm.weight"]
)
def test_weights_that_are_not_finite_are_refused(load: Load, folder: Path, name: str, value: float) -> None:
    edit_weights(folder, lambda w: w[name].view(-1)[5].fill_(value))

    assert f"holds values in {name} that are not finite" in refusal(load, folder).message


def test_pickled_weights_are_refused_unopened(load: Load, folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n(S'exit 3'\ntR.")

    error = refusal(load, folder)

    assert "pickled weights only, which can run code" in error.message
    assert "safetensors" in error.hint


def test_folder_without_weights_is_refused(load: Load, folder: Path) -> None:
    (folder / "model.safetensors").unlink()

    assert "has no *.safetensors file" in refusal(load, folder).message


def test_missing_shard_is_named(load: Load, folder: Path) -> None:
    index = {"weight_map": {"model.norm.weight": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))

    assert "lacks model-00002-of-00002.safetensors" in refusal(load, folder).message


@pytest.mark.parametrize("keep", [0, 4, 8, 300, 0.5, 0.999])
def test_truncated_safetensors_are_refused(load: Load, folder: Path, keep: float) -> None:
    path = folder / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[: int(keep if keep >= 1 else keep * len(data))])

    assert "is not a whole safetensors file" in refusal(load, folder).message


@pytest.mark.parametrize(
    "name", ["config.json", "model.safetensors", "tokenizer.json", "chat_template.jinja"]
)
def test_a_pipe_in_place_of_a_file_is_refused_unread(load: Load, folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)

    assert refusal(load, folder).message == f"{folder / name} is no file."


def test_missing_tokenizer_is_refused(load: Load, folder: Path) -> None:
    (folder / "tokenizer.json").unlink()

    assert "has no tokenizer.json" in refusal(load, folder).message


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_broken_tokenizer_is_refused(load: Load, folder: Path, name: str) -> None:
    (folder / name).write_text("{")

    assert f"{name} cannot be read" in refusal(load, folder).message


@pytest.mark.parametrize("recipe", ["int3", "", "FP32"])
def test_unknown_recipe_is_a_wrong_call(load: Load, folder: Path, recipe: str) -> None:
    error = refusal(load, folder, recipe)

    assert isinstance(error, UsageError)
    assert error.message == f"There is no recipe {recipe!r}."


@pytest.mark.parametrize("recipe", ["fp8", "fp8-bf16-head"])
def test_fp8_needs_a_gpu(load: Load, folder: Path, recipe: str) -> None:
    error = refusal(load, folder, recipe)

    assert isinstance(error, UsageError)
    assert error.message == f"Recipe {recipe} runs on a GPU only, not on cpu:0."


def test_q4_needs_q4_weights(load: Load, folder: Path) -> None:
    error = refusal(load, folder, "q4")

    assert isinstance(error, UsageError)
    assert "holds no Q4_1 weights for recipe q4" in error.message


# --- GGUF -------------------------------------------------------------------------------------------------------


def test_gguf_whose_scales_are_not_finite_is_refused(tiny: TinyModels, load: Load, tmp_path: Path) -> None:
    block = GgufFile(tiny.gguf(kind="Q4_1")).read("model.layers.1.mlp.down_proj.weight").data
    whole, found = tiny.gguf(kind="Q4_1").read_bytes(), bytes(block.flatten()[:20].tolist())
    path = tmp_path / "spoiled.gguf"
    path.write_bytes(whole.replace(found, b"\x00\x7e" + found[2:]))  # half precision's NaN

    error = refusal(load, path, "q4")

    assert "holds values in model.layers.1.mlp.down_proj.weight that are not finite" in error.message


@pytest.mark.parametrize("keep", [0, 3, 24, 200, 4000, 0.5, 0.999])
def test_cut_gguf_is_refused(tiny: TinyModels, load: Load, tmp_path: Path, keep: float) -> None:
    data = tiny.gguf(kind="Q4_1").read_bytes()
    path = tmp_path / "cut.gguf"
    path.write_bytes(data[: int(keep if keep >= 1 else keep * len(data))])

    assert "cut.gguf is not a whole GGUF file" in refusal(load, path).message


@pytest.mark.parametrize("data", [b"", b"hello", b"GGUF", b"GGUF" + b"\xff" * 60, b"\x00" * 4096])
def test_file_that_is_no_gguf_is_refused(load: Load, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(data)

    assert "other.gguf is not a whole GGUF file" in refusal(load, path).message


def test_gguf_of_another_architecture_is_refused(tiny: TinyModels, load: Load, tmp_path: Path) -> None:
    path = tmp_path / "falcon.gguf"
    path.write_bytes(tiny.gguf("qwen2").read_bytes().replace(b"qwen2", b"falco"))

    assert "an architecture specmon does not know (falco)" in refusal(load, path).message


def test_gguf_with_half_an_end_token_is_refused(tiny: TinyModels, load: Load, tmp_path: Path) -> None:
    name, whole, halves = b"tokenizer.ggml.eos_token_id", struct.pack("<II", 4, 0), struct.pack("<If", 6, 0.5)
    data = tiny.gguf("qwen2").read_bytes()
    assert name + whole in data
    path = tmp_path / "half.gguf"
    path.write_bytes(data.replace(name + whole, name + halves))

    assert (
        "has 0.5 as 'tokenizer.ggml.eos_token_id', which is not a whole number" in refusal(load, path).message
    )


def test_gguf_without_a_tensor_is_refused(tiny: TinyModels, load: Load, tmp_path: Path) -> None:
    path = tmp_path / "holed.gguf"
    path.write_bytes(tiny.gguf("qwen2").read_bytes().replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_xx.weight"))

    assert "has no tensor blk.1.ffn_up.weight" in refusal(load, path).message


def test_gguf_without_a_size_is_refused(tiny: TinyModels, load: Load, tmp_path: Path) -> None:
    path = tmp_path / "vague.gguf"
    path.write_bytes(tiny.gguf("qwen2").read_bytes().replace(b"qwen2.block_count", b"qwen2.xxxxx_count"))

    assert "has no metadata qwen2.block_count" in refusal(load, path).message


def test_gguf_without_a_known_tokenizer_is_refused(tiny: TinyModels, load: Load, tmp_path: Path) -> None:
    path = tmp_path / "mute.gguf"
    path.write_bytes(
        tiny.gguf("qwen2").read_bytes().replace(b"tokenizer.ggml.model", b"tokenizer.ggml.xxxxx")
    )

    assert f"The tokenizer in {path} cannot be read" in refusal(load, path).message


@pytest.mark.parametrize("seed", range(150))
def test_spoiled_gguf_header_never_surprises(tiny: TinyModels, tmp_path: Path, seed: int) -> None:
    """Any few bytes changed: the file opens, or is refused as every other bad file."""
    dice = random.Random(seed)
    data = bytearray(tiny.gguf("qwen2").read_bytes())
    for _ in range(dice.randint(1, 4)):
        data[dice.randrange(dice.choice((24, 600, 12_000)))] = dice.choice(
            (0, 1, 9, 255, dice.randrange(256))
        )
    path = tmp_path / "spoiled.gguf"
    path.write_bytes(data)

    with contextlib.suppress(SpecmonError):
        file = GgufFile(path)
        file.names()
        tokenizer_from_gguf(file.fields, path, file.config.eos_ids)
