"""A target's weights as Hugging Face's transformers runs them: an implementation that shares no code with ours."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specmon.core.errors import SpecmonError, UsageError
from specmon.core.models.gguf_file import GgufFile
from specmon.core.models.hf_folder import HfFolder
from specmon.core.models.source import Source


class HuggingFace:
    """A target as transformers runs it, read in fp32.

    Raises: UsageError for weights that transformers cannot have; SpecmonError where it cannot read them.
    """

    def __init__(self, source: Source, device: str) -> None:
        self._home = "cpu" if device.startswith("cpu") else device
        with _quiet():
            self._model = _load(source).eval().to(self._home)

    def logits(self, ids: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Logits [N, V] after each of `ids`, fp32 on the host, of one pass without a cache, with weights in `dtype`.

        What is rounded once stays so: ask for fp32 first.
        """
        for (
            parameter
        ) in self._model.parameters():  # not its buffers: transformers keeps RoPE's frequencies in fp32
            parameter.data = parameter.data.to(dtype)
        with _quiet(), _all_threads(), torch.inference_mode():
            logits: Tensor = self._model(torch.tensor([list(ids)], device=self._home)).logits[0]
        return logits.float().cpu()


def check_readable(source: Source) -> None:
    """Raises: UsageError for weights that transformers cannot have."""
    if not isinstance(source.file, HfFolder | GgufFile):
        raise UsageError(
            f"{source.label} has no file that Hugging Face could read.", "Give a folder or a .gguf file."
        )


def _load(source: Source) -> Any:
    check_readable(source)
    try:
        if isinstance(source.file, GgufFile):
            return _from_gguf(source.file.path)
        assert isinstance(source.file, HfFolder)
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(source.file.folder, dtype=torch.float32)
    except ImportError as missing:
        raise SpecmonError(
            f"The comparison needs {missing.name or 'transformers'}, which cannot be imported.",
            "Install it with: pip install 'specmon[engine]'",
        ) from missing
    except Exception as failed:  # another's reader can fail in any way
        first_line = (str(failed).strip() or type(failed).__name__).splitlines()[0]
        raise SpecmonError(f"Hugging Face cannot read {source.label}: {first_line.rstrip('.')}.") from failed


def _from_gguf(path: Path) -> Any:
    """The file as transformers reads it by itself, dequantised to fp32."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    raw = load_gguf_checkpoint(str(path), return_tensors=False)["config"]
    config = AutoConfig.for_model(**{k: v for k, v in raw.items() if not k.startswith("_")})
    with no_init_weights():
        model = AutoModelForCausalLM.from_config(config)
    tensors = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    if odd := set(unexpected) | (set(missing) - {"lm_head.weight"}):  # a tied head has no tensor of its own
        raise ValueError(f"its tensors are not the model's: {min(odd)}")
    model.tie_weights()
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Without progress bars and advice on stderr."""
    with redirect_stderr(StringIO()):
        yield


@contextmanager
def _all_threads() -> Iterator[None]:
    """On every core: a yardstick has no device of its own."""
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
