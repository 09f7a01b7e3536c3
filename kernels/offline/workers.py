"""Processes in which kernels compile: no interpreter, no GPU, and a cache that nobody else has filled."""

from __future__ import annotations

import os
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

from specmon.kernels.workers import workers


def compilers(folder: Path, count: int = 2) -> AbstractContextManager[ProcessPoolExecutor]:
    """`count` processes that keep all their files in `folder`, empty at first.

    What is submitted to them must import Triton inside.
    """
    return workers(count, _prepare, str(folder))


def _prepare(folder: str) -> None:
    """Before Triton is imported, which reads these once."""
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ["TRITON_CACHE_DIR"] = folder
    tempfile.tempdir = folder  # where ptxas and cuobjdump find what they read
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Triton prints what ptxas refuses
    warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION")
