"""Processes that compile, started once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path

import pytest

from specmon.kernels.offline.workers import compilers


@pytest.fixture(scope="session")
def compiling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    """They find `made_up_kernels`, since a child takes over this process's import path."""
    sys.path.insert(0, str(Path(__file__).parent))
    with compilers(tmp_path_factory.mktemp("compiled")) as pool:
        yield pool
    sys.path.remove(str(Path(__file__).parent))
