"""A tokenizer from GGUF metadata: byte-level BPE is built from its parts, other kinds go through transformers.

How text is split before BPE is only named in the file (`tokenizer.ggml.pre`); the patterns are those of the models' own
tokenizer.json (GPT-2, SmolLM, Qwen2, Llama 3).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as HfTokenizer

from specmon.core.errors import SpecmonError
from specmon.core.models.gguf_fields import token_id
from specmon.core.models.tokenizer import Tokenizer

_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS = {"qwen2": _WORDS + r"\p{N}" + _TAIL, "llama-bpe": _WORDS + r"\p{N}{1,3}" + _TAIL}
_GPT2_SPLIT = ("gpt-2", "smollm", "default")
_CONTROL, _USER_DEFINED = 3, 4


def tokenizer_from_gguf(fields: dict[str, Any], path: Path, eos_ids: tuple[int, ...]) -> Tokenizer:
    """Build the tokenizer of the GGUF file at `path`, whose metadata is `fields`.

    Raises: SpecmonError where the file holds none that can be read.
    """
    try:
        return _build(fields, path, eos_ids)
    except SpecmonError:
        raise
    except Exception as bad:  # metadata of any make, read by three libraries
        raise SpecmonError(
            f"The tokenizer in {path} cannot be read ({' '.join(str(bad).split())}).",
            "Convert the model again.",
        ) from bad


def _build(fields: dict[str, Any], path: Path, eos_ids: tuple[int, ...]) -> Tokenizer:
    pre = str(fields.get("tokenizer.ggml.pre", "default"))
    known = pre in _SPLITS or pre in _GPT2_SPLIT
    if fields.get("tokenizer.ggml.model") == "gpt2" and known:
        backend = _byte_level_bpe(fields, pre)
    else:
        backend = _through_transformers(path)
    tokens = fields["tokenizer.ggml.tokens"]
    special = {
        f"{role}_token": str(tokens[token])
        for role in ("bos", "eos")
        if (token := token_id(fields, role, str(path))) is not None
    }
    ends_of_turn = token_id(fields, "eot", str(path)), backend.token_to_id("<|im_end|>")
    return Tokenizer(
        backend,
        template=fields.get("tokenizer.chat_template"),
        special=special,
        eos_ids=tuple(dict.fromkeys([*eos_ids, *(token for token in ends_of_turn if token is not None)])),
    )


def _byte_level_bpe(fields: dict[str, Any], pre: str) -> HfTokenizer:
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    vocabulary = {token: i for i, token in enumerate(tokens)}
    backend = HfTokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre == "llama-bpe"))
    if pre in _SPLITS:
        split = pre_tokenizers.Split(Regex(_SPLITS[pre]), behavior="isolated")
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    else:
        digits = [pre_tokenizers.Digits(individual_digits=True)] if pre == "smollm" else []
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        backend.pre_tokenizer = pre_tokenizers.Sequence([*digits, byte_level])
    backend.decoder = decoders.ByteLevel()
    kinds = fields.get("tokenizer.ggml.token_type") or []
    named = [
        AddedToken(tokens[i], special=kind == _CONTROL, normalized=False)
        for i, kind in enumerate(kinds)
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    backend.add_tokens(named)
    return backend


def _through_transformers(path: Path) -> HfTokenizer:
    from transformers import AutoTokenizer

    slow = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    return HfTokenizer.from_str(slow.backend_tokenizer.to_str())
