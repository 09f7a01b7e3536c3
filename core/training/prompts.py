"""Prompts that are given, for the target to answer. A command reads them before it knows whether it can decode."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import msgspec

from specmon.core.errors import UsageError


def read_prompts(path: str) -> list[str]:
    """One prompt a line; in a .jsonl file each line is a JSON string, which may hold line breaks. Raises: UsageError."""
    try:
        lines = [line for line in Path(path).read_text("utf-8").split("\n") if line.strip()]
        prompts = [json.loads(line) for line in lines] if path.endswith(".jsonl") else lines
    except (OSError, ValueError) as bad:
        raise UsageError(f"The prompts in {path} cannot be read: {bad}.") from bad
    if not prompts or not all(isinstance(prompt, str) and prompt.strip() for prompt in prompts):
        raise UsageError(f"{path} holds no prompts.", "Write one a line; in a .jsonl file JSON strings.")
    return prompts


def sha256_of(prompts: list[str]) -> str:
    """By which prompts are known again, in whatever file they are."""
    return hashlib.sha256(msgspec.json.encode(prompts)).hexdigest()
