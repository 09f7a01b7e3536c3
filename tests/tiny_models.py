"""Tiny random models in real file formats: folders as Hugging Face writes them, with a trained byte-level tokenizer.

Their weights are drawn large enough that greedy text wanders instead of repeating one token.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from gguf import GGMLQuantizationType, GGUFWriter, TokenType
from gguf.quants import quantize
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

SPECIAL = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>")
TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
CORPUS = (
    "the cat sat on the mat and then the rat ran to the hat",
    "naïve café 漢字 👩‍💻 e\u0301",
    "0123456789",
)
HIDDEN, LAYERS, CONTEXT = 64, 3, 640
FAMILIES = ("llama", "llama-tied", "qwen2", "qwen3")

_SHAPE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": 128,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": CONTEXT,
    "initializer_range": 0.25,
    "bos_token_id": None,
    "eos_token_id": 0,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}
_CLASSES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {"num_key_value_heads": 1}),
    "llama-tied": (LlamaConfig, LlamaForCausalLM, {"tie_word_embeddings": True, "attention_bias": True}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 32}),
}
_ROPES: dict[str, dict[str, Any]] = {
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
}
_GGUF_NAMES = (
    ("model.embed_tokens", "token_embd"),
    ("model.layers", "blk"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("input_layernorm", "attn_norm"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
)


class TinyModels:
    """Makes each folder below `root` when it is first asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tokenizer = train_tokenizer()
        self.vocab_size = self.tokenizer.get_vocab_size()

    def target(self, family: str = "llama", rope: str = "default") -> Path:
        """A target of `family`; its RoPE "default", "llama3" or "yarn"."""
        return self._once(f"{family}-{rope}", lambda folder: self._save(folder, family, rope, seed=1))

    def draft(self, family: str = "llama") -> Path:
        """The target with noise on its weights: agrees with it often, not always."""
        return self._once(f"{family}-draft", lambda folder: self._blur(self.target(family), folder))

    def stranger(self) -> Path:
        """A model of the same vocabulary that knows nothing of any target."""
        return self._once("stranger", lambda folder: self._save(folder, "llama", "default", seed=7))

    def eagle3(self, family: str = "llama", **changes: Any) -> Path:
        """A random EAGLE-3 head for `family`, over every other token; `changes` go into its configuration."""
        name = "-".join(["eagle3", family, *(f"{k}{v}" for k, v in changes.items())])
        return self._once(name, lambda folder: self._save_eagle3(folder, family, changes))

    def block(self, family: str = "llama", block_len: int = 6) -> Path:
        """A random block drafter for `family`, over every other token."""
        return self._once(
            f"block-{family}-{block_len}", lambda folder: self._save_block(folder, family, block_len)
        )

    def variant(
        self, folder: Path, name: str, edit: Callable[[Path], None] = lambda copy: None, **changes: Any
    ) -> Path:
        """A copy of `folder` with other values in its config.json; `edit` changes what else it wants to."""

        def build(copy: Path) -> None:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            path = copy / "config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
            edit(copy)

        return self._once(f"{folder.name}-{name}", build)

    def two_layers(self, family: str) -> Path:
        """The first two layers of a target: a first and a last one, for kernels that are interpreted."""
        return self.variant(self.target(family), "2-layers", num_hidden_layers=2)

    def with_eos(self, folder: Path, *eos_ids: int) -> Path:
        """A copy of `folder` whose turns end at any of `eos_ids`."""
        return self.variant(folder, f"eos{'-'.join(map(str, eos_ids))}", eos_token_id=list(eos_ids))

    def padded(self, folder: Path, n_rows: int) -> Path:
        """A copy of `folder` with `n_rows` vocabulary rows: cut, or with more that would win most choices."""

        def build(copy: Path) -> None:
            weights = load_file(copy / "model.safetensors")
            torch.manual_seed(9)
            for name in ("model.embed_tokens.weight", "lm_head.weight"):
                table = weights[name]
                more = 3 * torch.randn(max(0, n_rows - len(table)), table.shape[1])
                weights[name] = torch.cat([table, more])[:n_rows].clone()
            save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})

        return self.variant(folder, f"{n_rows}-rows", build, vocab_size=n_rows)

    def with_words(self, folder: Path) -> Path:
        """A copy of `folder` whose text is ids in words ("t5 t17"), so that any text gives back its tokens."""

        def build(copy: Path) -> None:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            words = Tokenizer(models.WordLevel({f"t{i}": i for i in range(self.vocab_size)}, unk_token="t0"))
            words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
            words.save(str(copy / "tokenizer.json"))

        return self._once(f"{folder.name}-words", build)

    def gguf(self, family: str = "llama", kind: str = "F32", pre: str = "gpt-2") -> Path:
        """The target as llama.cpp stores it: `kind` is a GGML type for the matrices of its layers."""
        folder = self._once(
            f"gguf-{family}-{kind}-{pre}", lambda folder: self._save_gguf(folder, family, kind, pre)
        )
        return folder / "model.gguf"

    def _once(self, name: str, build: Callable[[Path], None]) -> Path:
        folder = self.root / name
        if not folder.exists():
            folder.mkdir()
            build(folder)
        return folder

    def _save(self, folder: Path, family: str, rope: str, seed: int) -> None:
        config_class, model_class, own = _CLASSES[family]
        shape = {**_SHAPE, **own, "vocab_size": self.vocab_size}
        if rope != "default":
            shape["rope_parameters"] = {"rope_theta": 10_000.0, **_ROPES[rope]}
        torch.manual_seed(seed)
        model = model_class(config_class(**shape))
        for name, weight in model.named_parameters():
            if name.endswith("bias") or "norm" in name:  # initialised to constants: draw them
                weight.data += 0.2 * torch.randn_like(weight)
        model.save_pretrained(folder)
        self._save_tokenizer(folder)

    def _save_gguf(self, folder: Path, family: str, kind: str, pre: str) -> None:
        write_gguf(folder / "model.gguf", self.target(family), self.tokenizer, kind=kind, pre=pre)

    def _save_tokenizer(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / "tokenizer.json"))
        settings = {"eos_token": SPECIAL[0], "chat_template": TEMPLATE}
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))

    def _blur(self, target: Path, folder: Path) -> None:
        shutil.copytree(target, folder, dirs_exist_ok=True)
        torch.manual_seed(3)
        weights = load_file(target / "model.safetensors")
        blurred = {k: w + 0.01 * torch.randn_like(w) for k, w in weights.items()}
        save_file(blurred, folder / "model.safetensors", metadata={"format": "pt"})

    def _save_eagle3(self, folder: Path, family: str, changes: dict[str, Any]) -> None:
        raw = json.loads((self.target(family) / "config.json").read_text())
        raw |= {
            "architectures": ["LlamaForCausalLMEagle3"],
            "num_hidden_layers": 1,
            "head_dim": raw.get("head_dim") or HIDDEN // raw["num_attention_heads"],
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]},
            **changes,
        }
        torch.manual_seed(5)
        to_target = torch.arange(0, self.vocab_size, 2)
        weights = random_eagle3(raw, n_taps=3, vocab_size=len(to_target))
        weights["d2t"] = to_target - torch.arange(len(to_target))
        weights["t2d"] = torch.zeros(raw["vocab_size"], dtype=torch.bool).index_fill(0, to_target, True)
        save_file(weights, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(raw))

    def _save_block(self, folder: Path, family: str, block_len: int) -> None:
        raw = json.loads((self.target(family) / "config.json").read_text())
        raw |= {
            "architectures": ["LlamaBlockDrafter"],
            "num_hidden_layers": 2,
            "head_dim": raw.get("head_dim") or HIDDEN // raw["num_attention_heads"],
            "attention_bias": False,
            "block_config": {"target_layers": [0, 1, 2]},
        }
        torch.manual_seed(6)
        to_target = torch.arange(0, self.vocab_size, 2)
        weights = random_block(raw, n_taps=3, vocab_size=len(to_target), block_len=block_len)
        weights["d2t"] = to_target - torch.arange(len(to_target))
        weights["t2d"] = torch.zeros(raw["vocab_size"], dtype=torch.bool).index_fill(0, to_target, True)
        save_file(weights, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps(raw))


def write_gguf(path: Path, source: Path, tokenizer: Tokenizer, *, kind: str, pre: str) -> None:
    """Store the Hugging Face folder `source` as llama.cpp's converter does."""
    config = json.loads((source / "config.json").read_text())
    arch = config["model_type"]
    writer = GGUFWriter(path, arch)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    if arch == "qwen3":
        writer.add_key_length(config["head_dim"])
    _add_tokenizer(writer, tokenizer, pre)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name, tensor in load_file(source / "model.safetensors").items():
        own, data = _gguf_name(name), tensor.float()
        for projection, n_heads in heads.items():
            if arch == "llama" and f".{projection}." in name:  # rows interleaved for llama.cpp's RoPE
                data = (
                    data.view(n_heads, 2, data.shape[0] // n_heads // 2, -1)
                    .transpose(1, 2)
                    .reshape(data.shape)
                )
        in_blocks = kind != "F32" and data.dim() == 2 and own.startswith("blk.")
        as_type = GGMLQuantizationType[kind if in_blocks else "F32"]
        writer.add_tensor(own, quantize(data.numpy(), as_type), raw_dtype=as_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: GGUFWriter, tokenizer: Tokenizer, pre: str) -> None:
    raw = json.loads(tokenizer.to_str())["model"]
    tokens = sorted(raw["vocab"], key=raw["vocab"].__getitem__)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_merges([" ".join(merge) for merge in raw["merges"]])
    writer.add_token_types([TokenType.CONTROL if token in SPECIAL else TokenType.NORMAL for token in tokens])
    writer.add_eos_token_id(0)
    writer.add_chat_template(TEMPLATE)


def _gguf_name(name: str) -> str:
    for theirs, own in _GGUF_NAMES:
        name = name.replace(theirs, own)
    return name


def random_eagle3(config: dict[str, Any], *, n_taps: int, vocab_size: int) -> dict[str, Tensor]:
    """Random weights of an EAGLE-3 head under their published names."""
    hidden, inner, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    shapes = {
        "fc.weight": (hidden, n_taps * hidden),
        "midlayer.self_attn.q_proj.weight": (q, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": (kv, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": (kv, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": (hidden, q),
        "midlayer.mlp.gate_proj.weight": (inner, hidden),
        "midlayer.mlp.up_proj.weight": (inner, hidden),
        "midlayer.mlp.down_proj.weight": (hidden, inner),
        "lm_head.weight": (vocab_size, hidden),
    }
    norms = ("midlayer.input_layernorm", "midlayer.hidden_norm", "midlayer.post_attention_layernorm", "norm")
    weights = {name: 0.2 * torch.randn(shape) for name, shape in shapes.items()}
    weights |= {f"{name}.weight": 1 + 0.2 * torch.randn(hidden) for name in norms}
    if config.get("attention_bias"):
        for p, size in (("q", q), ("k", kv), ("v", kv), ("o", hidden)):
            weights[f"midlayer.self_attn.{p}_proj.bias"] = 0.2 * torch.randn(size)
    return weights


def random_block(
    config: dict[str, Any], *, n_taps: int, vocab_size: int, block_len: int
) -> dict[str, Tensor]:
    """Random weights of a block drafter under the names that training gives them."""
    hidden, inner, head_dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head_dim, config["num_key_value_heads"] * head_dim
    layer = {
        "self_attn.q_proj": (q, hidden),
        "self_attn.k_proj": (kv, hidden),
        "self_attn.v_proj": (kv, hidden),
        "self_attn.o_proj": (hidden, q),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
        "input_layernorm": (hidden,),
        "post_attention_layernorm": (hidden,),
    }
    shapes = {
        "model.fc": (hidden, n_taps * hidden),
        "model.hidden_norm": (hidden,),
        "model.masks": (block_len, hidden),
        "model.norm": (hidden,),
        "lm_head": (vocab_size, hidden),
    }
    for i in range(config["num_hidden_layers"]):
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    return {f"{name}.weight": 0.2 * torch.randn(shape) + (len(shape) == 1) for name, shape in shapes.items()}


def train_tokenizer() -> Tokenizer:
    """Byte-level BPE: four special tokens, 256 bytes and some merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    return tokenizer


def hf_model(folder: Path, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The folder as transformers itself runs it."""
    from transformers import AutoModelForCausalLM

    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
    return model.eval()


def hf_gguf_model(path: Path) -> PreTrainedModel:
    """A GGUF as transformers reads it by itself, in fp32."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    raw = load_gguf_checkpoint(str(path), return_tensors=False)["config"]
    config = AutoConfig.for_model(**{k: v for k, v in raw.items() if not k.startswith("_")})
    with no_init_weights():
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    assert set(missing) <= {"lm_head.weight"}  # tied
    assert not unexpected
    model.tie_weights()
    return model.eval()
