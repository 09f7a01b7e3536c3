"""What the target wrote, kept in files so that runs share it and go on with it: 00000.safetensors, … in one folder.

Each holds `tokens` [rows, T] int32 and `kinds` [rows, T] uint8 (`generate.READ` …), and is whole or not there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from specmon.core.errors import SpecmonError
from specmon.core.training.atomic import write_whole
from specmon.core.training.config import Watcher
from specmon.core.training.forms import Decoder
from specmon.core.training.generate import FIRST, READ, Rows, RowWriter
from specmon.core.training.ranks import Ranks
from specmon.core.training.scripts import Script

#: Of so many files one holds rows of long questions.
_LONG_EVERY = 2

#: Tokens written at once on a CPU and on a GPU; there at most so many that keys and values take this share of memory.
_AT_ONCE_CPU, _AT_ONCE_CUDA, _MEMORY_SHARE = 16_384, 1_572_864, 0.3

#: Text that repeats itself with a period up to so many tokens, so often and for so long, is a loop.
_LOOP_PERIOD, _LOOP_REPEATS, _LOOP_TOKENS = 48, 3, 32


def write_text(
    target: Decoder,
    scripts: tuple[Script, ...],
    tokens: int,
    seed: int,
    folder: Path,
    ranks: Ranks,
    watcher: Watcher,
) -> None:
    """Write what `folder` lacks of so many tokens of text; devices take turns by file. Raises: SpecmonError."""
    at_once = min(_tokens_at_once(target), -(-tokens // _LONG_EVERY))
    n_rows = {script.row_tokens: max(2, at_once // script.row_tokens) for script in scripts}

    def file_tokens(number: int) -> int:
        row_tokens = _script_of(number, scripts).row_tokens
        return row_tokens * n_rows[row_tokens]

    missing = _missing(folder, tokens, file_tokens)
    mine = [number for number in missing if (number + number // _LONG_EVERY) % ranks.world == ranks.rank]
    ranks.wait()  # all have looked before one writes
    steps = [_script_of(number, scripts).row_tokens - 1 for number in mine]
    if steps:
        watcher.begin("the target writes text", sum(steps), "steps")
    writers: dict[int, RowWriter] = {}
    for number in mine:
        script = _script_of(number, scripts)
        if script.row_tokens not in writers:
            writers[script.row_tokens] = RowWriter(target, script, n_rows[script.row_tokens])
        rows = without_loops(writers[script.row_tokens].write(seed * 100_003 + number, watcher.done))
        parts = {name: part.cpu() for name, part in rows._asdict().items()}
        write_whole(folder / f"{number:05}.safetensors", partial(save_file, parts))
    ranks.wait()


def read_text(folder: Path, tokens: int) -> list[Rows]:
    """The first files of `folder` that hold `tokens`, those of one length together. Raises: SpecmonError."""
    groups: dict[int, list[Rows]] = defaultdict(list)
    n_tokens = 0
    for path in _files(folder).values():
        if n_tokens >= tokens:
            break
        rows = _read(path)
        n_tokens += rows.tokens.numel()
        groups[rows.tokens.shape[1]].append(rows)
    return [Rows(*map(torch.cat, zip(*group, strict=True))) for _, group in sorted(groups.items())]


def without_loops(rows: Rows) -> Rows:
    """The rows with tokens that only repeat what stands before them counted as read, so that nothing learns from them."""
    tokens = rows.tokens
    looping = torch.zeros_like(tokens, dtype=torch.bool)
    for period in range(1, min(_LOOP_PERIOD, tokens.shape[1] - 1) + 1):
        same = torch.zeros_like(looping)
        same[:, period:] = tokens[:, period:] == tokens[:, :-period]
        looping |= _run_lengths(same) >= max(_LOOP_REPEATS * period, _LOOP_TOKENS)
    return Rows(tokens, torch.where(looping, rows.kinds & FIRST | READ, rows.kinds))


def _run_lengths(marks_BT: Tensor) -> Tensor:
    """How many marked places in a row end at each."""
    counts = marks_BT.int().cumsum(1)
    before = torch.where(marks_BT, 0, counts).cummax(1).values
    return counts - before


def _script_of(number: int, scripts: tuple[Script, ...]) -> Script:
    return scripts[-1] if number % _LONG_EVERY == _LONG_EVERY - 1 else scripts[0]


def _missing(folder: Path, tokens: int, file_tokens: Callable[[int], int]) -> list[int]:
    """Numbers of the files still to be written for so many tokens."""
    there = _files(folder)
    held = sum(_read(path).tokens.numel() for path in there.values())
    missing: list[int] = []
    number = 0
    while held < tokens:
        if number not in there:
            missing.append(number)
            held += file_tokens(number)
        number += 1
    return missing


def _files(folder: Path) -> dict[int, Path]:
    """The files by their numbers, in order."""
    return {int(path.stem): path for path in sorted(folder.glob("[0-9]*.safetensors"))}


def _read(path: Path) -> Rows:
    try:
        return Rows(**load_file(path))
    except (OSError, SafetensorError, TypeError) as bad:
        raise SpecmonError(f"{path} cannot be read ({bad}).", "Remove it; it is written again.") from bad


def _tokens_at_once(target: Decoder) -> int:
    device = target.head_VD.device
    if device.type != "cuda":
        return _AT_ONCE_CPU
    c = target.config
    token_bytes = 2 * c.n_layers * c.kv_heads_dim * target.head_VD.element_size()
    memory = torch.cuda.get_device_properties(device).total_memory
    return min(_AT_ONCE_CUDA, int(memory * _MEMORY_SHARE) // token_bytes)
