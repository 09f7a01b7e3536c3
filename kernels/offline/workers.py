"""Processes in which kernels compile: no interpreter, no GPU, and a cache that nobody else has filled."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context


@contextmanager
def compilers(count: int = 2) -> Iterator[ProcessPoolExecutor]:
    """`count` processes; what is submitted to them must import Triton inside."""
    with tempfile.TemporaryDirectory(prefix="specmon-kernels-") as folder:
        pool = ProcessPoolExecutor(
            count, mp_context=get_context("spawn"), initializer=_prepare, initargs=(folder,)
        )
        with pool:
            yield pool


def _prepare(cache: str) -> None:
    """Before Triton is imported, which reads these once."""
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ["TRITON_CACHE_DIR"] = cache
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    warnings.filterwarnings("ignore", message="TRITON_DEFAULT_FP_FUSION")
