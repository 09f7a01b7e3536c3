"""What must be there before decoding can start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from specmon.core.errors import SpecmonError

if TYPE_CHECKING:
    from specmon.core.engine.messages import LaneConfig

EMBEDDED = "smollm2"
RANDOM = "random:"  # brings no tokenizer of its own


def prepare(lanes: Iterable[LaneConfig]) -> None:
    """Check for the engine extra, and fetch the embedded model where a lane asks for it or for its tokenizer.

    Raises: SpecmonError saying what to install, or why the model cannot be had.
    """
    require_engine()
    if any(EMBEDDED in (lane.target, lane.draft) or lane.target.startswith(RANDOM) for lane in lanes):
        from specmon.tui.commands.fetching import ensure_embedded_model

        ensure_embedded_model()


def require_engine() -> None:
    """Raises: SpecmonError where the packages that decode are not installed."""
    from specmon.tui.commands.doctor import missing_engine_packages

    if missing := missing_engine_packages():
        raise SpecmonError(
            f"Decoding needs the engine extra, which is not installed (missing: {', '.join(missing)}).",
            "Install it with: pip install 'specmon[engine]'",
        )
