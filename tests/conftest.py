"""Shared by every folder of tests; what is heavy loads only where a test asks for it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .tiny_models import TinyModels

# Without a GPU the kernels run in Triton's interpreter, which has to be said before anything imports Triton.
if not any(Path("/dev").glob("nvidia[0-9]*")):
    os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny random models, made once a session."""
    from .tiny_models import TinyModels

    return TinyModels(tmp_path_factory.mktemp("tiny"))
