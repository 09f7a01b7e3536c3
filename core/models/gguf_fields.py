"""Token ids in a GGUF's metadata."""

from __future__ import annotations

from typing import Any

from specmon.core.errors import SpecmonError
from specmon.core.models.json_fields import whole_number

_NO_TOKEN = (-1, 0xFFFF_FFFF)  # llama.cpp's null token, signed and unsigned


def token_id(fields: dict[str, Any], role: str, where: str) -> int | None:
    """The token that the file gives a role, "eos", "bos" or "eot"; None where it gives none, as -1 says too.

    Raises: SpecmonError for what is no id of its vocabulary.
    """
    key = f"tokenizer.ggml.{role}_token_id"
    if fields.get(key) is None:
        return None
    token = whole_number(fields, key, where)
    if token in _NO_TOKEN:
        return None
    n_tokens = len(fields.get("tokenizer.ggml.tokens") or ())
    if token < 0 or (n_tokens and token >= n_tokens):
        raise SpecmonError(f"{where} has {token} as {key!r}, but its vocabulary has {n_tokens:,} tokens.")
    return token
