"""What runs that were killed left behind, offered when the monitor starts."""

from __future__ import annotations

from pathlib import Path

from specmon.core import paths
from specmon.core.errors import SpecmonError
from specmon.core.session.recover import Recoverable, list_recoverable, recover
from specmon.tui.widgets.lines import Line


class LeftBehind:
    """The spools in `state` whose process is gone; none where there is no such folder."""

    def __init__(self, state: Path | None) -> None:
        self._spools: list[Recoverable] = [] if state is None else list_recoverable(state)

    def offer(self) -> Line:
        """One line that says what can be kept, and how; empty where nothing was left."""
        count, megabytes = len(self._spools), sum(spool.bytes for spool in self._spools) / 1e6
        if not count:
            return []
        what = "A run that was" if count == 1 else f"{count} runs that were"
        return [
            (f"{what} cut short left {megabytes:.1f} MB of recording: ", "warning"),
            ("K", "accent"),
            (" keeps it.", "text"),
        ]

    def keep(self, recordings: Path) -> str:
        """Make recordings of them in that folder; says where they are, or why one is not."""
        kept: list[Path] = []
        try:
            while self._spools:
                kept.append(recover(self._spools[0].path, paths.private_dir(recordings)))
                del self._spools[0]
        except SpecmonError as error:
            del self._spools[0]
            return error.message
        if not kept:
            return "no run left anything behind"
        return f"kept as {kept[0]}" if len(kept) == 1 else f"{len(kept)} recordings kept in {recordings}"
