"""Shared by every folder of tests; what is heavy loads only where a test asks for it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .tiny_models import TinyModels

# Without a GPU the kernels run in Triton's interpreter, which has to be said before anything imports Triton.
if not any(Path("/dev").glob("nvidia[0-9]*")):
    os.environ["TRITON_INTERPRET"] = "1"


def pytest_collection_finish() -> None:
    """Whoever needs Triton has imported it by now."""
    if "TRITON_INTERPRET" in os.environ and "triton" in sys.modules:
        from .triton_interpreter import replace_language_once_a_launch

        replace_language_once_a_launch()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ctrl+c is heard, whatever a test before left or a shell's background job inherits; `embedded` needs its model."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if item.get_closest_marker("embedded") is None:
        return
    from specmon.core import paths
    from specmon.core.models.fetch import is_fetched

    if not is_fetched(paths.cache_dir()):
        pytest.skip("the embedded model is not fetched (specmon models fetch smollm2)")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyModels:
    """Tiny random models, made once a session."""
    from .tiny_models import TinyModels

    return TinyModels(tmp_path_factory.mktemp("tiny"))
