"""What a model's shape is, read from a Hugging Face config.json or from GGUF metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from specmon.core.errors import SpecmonError
from specmon.core.models.gguf_fields import token_id
from specmon.core.models.json_fields import items, number, table, whole_number, whole_numbers

FAMILIES = ("llama", "qwen2", "qwen3")
LONGEST_CONTEXT = 32_768
_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "LlamaForCausalLMEagle3": "llama",
    "Eagle3LlamaForCausalLM": "llama",
    "Eagle3Speculator": "llama",
    "Eagle3DraftModel": "llama",
    "LlamaBlockDrafter": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
}


@dataclass(frozen=True, kw_only=True)
class RopeConfig:
    """Rotary embedding: `kind` is "default", "llama3" or "yarn"; `parameters` are the scaling's own figures."""

    theta: float = 10_000.0
    kind: str = "default"
    parameters: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The shape of a Llama, Qwen2/2.5 or Qwen3 decoder (EAGLE-3 heads and block drafters too)."""

    family: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    norm_eps: float
    rope: RopeConfig
    context_length: int
    tied_head: bool
    qkv_bias: bool
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    eos_ids: tuple[int, ...] = ()
    bos_id: int | None = None

    @property
    def served_context(self) -> int:
        """Positions a lane reserves KV slots for: the model's context, up to LONGEST_CONTEXT."""
        return min(self.context_length, LONGEST_CONTEXT)

    @property
    def kv_heads_dim(self) -> int:
        return self.n_kv_heads * self.head_dim

    @property
    def q_heads_dim(self) -> int:
        return self.n_heads * self.head_dim


def config_from_hf(raw: dict[str, Any], where: str) -> ModelConfig:
    """Read a Hugging Face config.json. Of a head as speculators publishes it the layer's configuration is nested.

    Args:
        raw: the parsed file. where: its path, for messages.
    Raises: SpecmonError for an architecture or a feature that is not supported, or a field that is missing or of a wrong
        kind.
    """
    family, raw = _family(raw, where), {**raw, **table(raw, "transformer_layer_config", where)}
    n_heads, hidden = (whole_number(raw, key, where) for key in ("num_attention_heads", "hidden_size"))
    config = ModelConfig(
        family=family,
        vocab_size=whole_number(raw, "vocab_size", where),
        hidden_size=hidden,
        intermediate_size=whole_number(raw, "intermediate_size", where),
        n_layers=whole_number(raw, "num_hidden_layers", where),
        n_heads=n_heads,
        n_kv_heads=whole_number(raw, "num_key_value_heads", where, 0) or n_heads,
        head_dim=whole_number(raw, "head_dim", where, 0) or hidden // max(1, n_heads),
        norm_eps=number(raw, "rms_norm_eps", where, 1e-6),
        rope=_rope_from_hf(raw, where),
        context_length=whole_number(raw, "max_position_embeddings", where, 4096),
        tied_head=bool(raw.get("tie_word_embeddings", False)),
        qkv_bias=family == "qwen2" or bool(raw.get("attention_bias", False)),
        o_bias=family != "qwen2" and bool(raw.get("attention_bias", False)),
        mlp_bias=bool(raw.get("mlp_bias", False)),
        qk_norm=family == "qwen3",
        eos_ids=whole_numbers(raw, "eos_token_id", where),
        bos_id=next(iter(whole_numbers(raw, "bos_token_id", where)), None),
    )
    _refuse_unsupported(raw, where)
    return _checked(config, where)


def _family(raw: dict[str, Any], where: str) -> str:
    names = items(raw, "architectures", where)
    for name in names:
        if name in _ARCHITECTURES:
            return _ARCHITECTURES[name]
    found = ", ".join(map(str, names)) or str(raw.get("model_type", "none named"))
    raise SpecmonError(
        f"{where} is for an architecture specmon does not know ({found}).",
        "Supported are Llama, Qwen2, Qwen2.5 and Qwen3.",
    )


def _refuse_unsupported(raw: dict[str, Any], where: str) -> None:
    if raw.get("hidden_act", "silu") != "silu":
        raise SpecmonError(f"{where} asks for the activation {raw['hidden_act']!r}; only silu is supported.")
    if raw.get("use_sliding_window") or any(
        "sliding" in str(kind) for kind in items(raw, "layer_types", where)
    ):
        raise SpecmonError(f"{where} asks for sliding-window attention, which is not supported.")


def _rope_from_hf(raw: dict[str, Any], where: str) -> RopeConfig:
    """Both spellings: `rope_theta` + `rope_scaling`, and transformers 5's `rope_parameters`."""
    parameters = {**table(raw, "rope_parameters", where), **table(raw, "rope_scaling", where)}
    theta = number(parameters, "rope_theta", where, number(raw, "rope_theta", where, 10_000.0))
    parameters.pop("rope_theta", None)
    kind = str(parameters.pop("rope_type", None) or parameters.pop("type", None) or "default")
    parameters.pop("type", None)
    if kind not in ("default", "llama3", "yarn"):
        raise SpecmonError(
            f"{where} asks for the RoPE kind {kind!r}; default, llama3 and yarn are supported."
        )
    numbers = {k: float(v) for k, v in parameters.items() if isinstance(v, (int, float))}
    if kind == "yarn":
        numbers.setdefault(
            "original_max_position_embeddings", float(number(raw, "max_position_embeddings", where, 4096))
        )
    return RopeConfig(theta=float(theta), kind=kind, parameters=tuple(sorted(numbers.items())))


def config_from_gguf(fields: dict[str, Any], where: str) -> ModelConfig:
    """Read GGUF metadata (`fields` maps keys to plain values).

    Raises: SpecmonError for an architecture that is not supported or metadata that is incomplete.
    """
    try:
        return _checked(_read_gguf_fields(fields, where), where)
    except (KeyError, TypeError, ValueError) as bad:
        raise SpecmonError(f"{where} has metadata that cannot be read: {bad}.") from bad


def _read_gguf_fields(fields: dict[str, Any], where: str) -> ModelConfig:
    arch = fields.get("general.architecture")
    if arch not in FAMILIES:
        raise SpecmonError(
            f"{where} is for an architecture specmon does not know ({arch}).",
            "Supported are Llama, Qwen2, Qwen2.5 and Qwen3.",
        )

    def get(key: str, default: Any = None) -> Any:
        value = fields.get(f"{arch}.{key}", default)
        if value is None:
            raise SpecmonError(f"{where} has no metadata {arch}.{key}.", "The file may be cut or too old.")
        return value

    n_heads, hidden = int(get("attention.head_count")), int(get("embedding_length"))
    head_dim = int(fields.get(f"{arch}.attention.key_length") or hidden // max(1, n_heads))
    return ModelConfig(
        family=str(arch),
        vocab_size=len(fields.get("tokenizer.ggml.tokens") or ()) or int(get("vocab_size")),
        hidden_size=hidden,
        intermediate_size=int(get("feed_forward_length")),
        n_layers=int(get("block_count")),
        n_heads=n_heads,
        n_kv_heads=int(get("attention.head_count_kv", n_heads)),
        head_dim=head_dim,
        norm_eps=float(get("attention.layer_norm_rms_epsilon", 1e-6)),
        rope=_rope_from_gguf(fields, str(arch), where),
        context_length=int(get("context_length", 4096)),
        tied_head=False,  # the file's tensors decide: see gguf_file
        qkv_bias=arch == "qwen2",
        qk_norm=arch == "qwen3",
        eos_ids=() if (eos := token_id(fields, "eos", where)) is None else (eos,),
        bos_id=token_id(fields, "bos", where),
    )


def _rope_from_gguf(fields: dict[str, Any], arch: str, where: str) -> RopeConfig:
    theta = float(fields.get(f"{arch}.rope.freq_base", 10_000.0))
    kind = fields.get(f"{arch}.rope.scaling.type", "none")
    if kind == "none":
        return RopeConfig(theta=theta)
    if kind != "yarn":
        raise SpecmonError(
            f"{where} asks for the RoPE scaling {kind!r}; none and yarn are supported in a GGUF."
        )
    numbers = {
        "factor": float(fields[f"{arch}.rope.scaling.factor"]),
        "original_max_position_embeddings": float(fields[f"{arch}.rope.scaling.original_context_length"]),
    }
    return RopeConfig(theta=theta, kind="yarn", parameters=tuple(sorted(numbers.items())))


def _checked(config: ModelConfig, where: str) -> ModelConfig:
    sizes = (config.vocab_size, config.hidden_size, config.n_layers, config.n_heads, config.n_kv_heads)
    if min(*sizes, config.head_dim, config.intermediate_size, config.context_length) < 1:
        raise SpecmonError(f"{where} gives a size below one.")
    if config.n_heads % config.n_kv_heads:
        raise SpecmonError(
            f"{where} gives {config.n_heads} heads and {config.n_kv_heads} KV heads, which do not divide."
        )
    if config.head_dim % 2:
        raise SpecmonError(f"{where} gives an odd head size ({config.head_dim}), which RoPE cannot rotate.")
    if config.rope.theta <= 0 or config.norm_eps < 0:
        raise SpecmonError(f"{where} gives a RoPE base that is not above 0, or a norm's epsilon below it.")
    return config
