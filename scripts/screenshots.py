"""The pictures of the README, from recordings that ship: `python scripts/screenshots.py [FOLDER]`.

Each is a real recording on the real replay screen, stepped to a place by the keys a user would press.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from textual.pilot import Pilot

from specmon.tui.app import SpecmonApp
from specmon.tui.feeds.replay import ReplayFeed

ROOT = Path(__file__).resolve().parent.parent
LOADING_TICKS = 200


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A file's name, what it shows, and how."""

    name: str
    session: str
    size: tuple[int, int]
    theme: str = "specmon-dark"
    keys: tuple[str, ...] = ()


PICTURES = (
    Picture(name="monitor", session="ssd.session", size=(160, 48), keys=("end", "comma", "comma", "comma")),
    Picture(name="monitor-80x24", session="ssd.session", size=(80, 24), theme="paper", keys=("end", "comma")),
    Picture(name="timeline", session="ssd.session", size=(120, 32), theme="colour-blind", keys=("end", "5")),
    Picture(name="race", session="race.session", size=(160, 48), keys=("end",)),
    Picture(
        name="eagle3-light", session="eagle3.session", size=(160, 48), theme="specmon-light", keys=("end",)
    ),
)


async def take(picture: Picture, folder: Path) -> Path:
    """Open the recording, press the keys, and write the screen as SVG."""
    feed = ReplayFeed(ROOT / "sessions" / picture.session)
    app = SpecmonApp(feed, theme=picture.theme, refresh_hz=0)
    async with app.run_test(size=picture.size) as pilot:
        await loaded(pilot, app, feed)
        for key in picture.keys:
            await pilot.press(key)
        await pilot.pause(0.3)
        app.tick()
        await pilot.pause(0.3)
        path = folder / f"{picture.name}.svg"
        path.write_text(app.export_screenshot(title=f"specmon replay {picture.session}"))
    feed.close()
    return path


async def loaded(pilot: Pilot[None], app: SpecmonApp, feed: ReplayFeed) -> None:
    """Let the file be read to its end."""
    for _ in range(LOADING_TICKS):
        await pilot.pause(0)
        app.tick()
        if feed.loaded:
            return
    raise SystemExit(f"{feed.path} does not load")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    for picture in PICTURES:
        print(asyncio.run(take(picture, folder)))


if __name__ == "__main__":
    main()
