"""What a model folder or file holds, in pairs of name and value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from specmon.core.errors import SpecmonError, UsageError

if TYPE_CHECKING:
    from specmon.core.models.config import ModelConfig


def describe(model: str) -> list[tuple[str, str]]:
    """The architecture and sizes of a folder, a .gguf file or "smollm2".

    Raises: UsageError where there is none; SpecmonError where it cannot be read.
    """
    path = _located(model)
    config = _config(path)
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    weights = [file for file in files if file.suffix in {".safetensors", ".gguf"}]
    size = f"{sum(file.stat().st_size for file in weights) / 1e6:,.1f} MB in {len(weights)} file(s)"
    return [("path", str(path)), *_config_lines(config), ("weights", size)]


def _located(model: str) -> Path:
    from specmon.core.models.fetch import embedded_model_path, is_fetched
    from specmon.core.paths import cache_dir
    from specmon.tui.commands.models import shipped_drafters

    if model == "smollm2":
        if not is_fetched(cache_dir()):
            raise SpecmonError("smollm2 is not fetched.", "Get it with: specmon models fetch smollm2")
        return embedded_model_path(cache_dir())
    shipped = {folder.name: folder for folder in shipped_drafters()}
    path = shipped.get(model, Path(model))
    if not path.exists():
        raise UsageError(
            f"There is no folder or file {model}.", "Models of the hub are looked at once loaded."
        )
    return path


def _config(path: Path) -> ModelConfig:
    from specmon.core.models.config import config_from_hf

    if path.is_dir():
        file = path / "config.json"
        try:
            raw = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UsageError(f"{path} has no config.json.", "Give a model folder or a .gguf file.") from None
        except (OSError, ValueError) as error:
            raise SpecmonError(f"{file} cannot be read: {error}.") from error
        if not isinstance(raw, dict):
            raise SpecmonError(f"{file} is not a JSON object.")
        return config_from_hf(raw, str(file))
    if path.suffix != ".gguf":
        raise UsageError(f"{path} is neither a model folder nor a .gguf file.")
    from specmon.tui.commands.prepare import require_engine

    require_engine()
    from specmon.core.models.gguf_file import GgufFile

    return GgufFile(path).config


def _config_lines(config: ModelConfig) -> Iterator[tuple[str, str]]:
    yield "family", config.family
    yield "layers", f"{config.n_layers}, hidden {config.hidden_size}, intermediate {config.intermediate_size}"
    yield "heads", f"{config.n_heads}, {config.n_kv_heads} for KV, of {config.head_dim}"
    yield "vocabulary", f"{config.vocab_size:,}{', head tied to the embedding' if config.tied_head else ''}"
    yield (
        "context",
        f"{config.context_length:,} tokens, RoPE {config.rope.kind}, theta {config.rope.theta:,.0f}",
    )
    kv_elements = 2 * config.n_layers * config.kv_heads_dim
    yield "KV per token", f"{2 * kv_elements:,} bytes in bf16, {4 * kv_elements:,} in fp32"
