"""What is said about decoded turns, the same way for a live run and for a recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from specmon.core.events import AnyEvent, Event, Prefill, Round, TurnEnd
from specmon.core.metrics.ledger import Ledger
from specmon.core.metrics.race import lane_labels, race_turns
from specmon.core.metrics.summary import RaceSummary, Summary, race_summary, summary
from specmon.core.metrics.text import launches
from specmon.tui.commands.output import note, say, write_json

if TYPE_CHECKING:
    from specmon.tui.commands.output import TextStream


class Report:
    """Takes a stream's events: lane 0's text goes to `stream` (None: nowhere), everything into the ledger."""

    def __init__(self, stream: TextStream | None) -> None:
        self.ledger = Ledger()
        self._stream = stream

    def feed(self, event: Event) -> None:
        """Take the next event."""
        self.ledger.feed(cast("AnyEvent", event))
        if self._stream is not None and event.lane == 0:
            self._stream.write(text_of(event))

    def say(self, line: str) -> None:
        """One line for the user on stderr, never on a line of the text."""
        if self._stream is not None:
            self._stream.end_line()
        say(line)

    def finish(self, session: str | None, *, incomplete: bool = False) -> Summary | RaceSummary | None:
        """End the text; then the newest turn's figures: JSON on stdout if there was no text, else on stderr.

        A stream with turns on several lanes is summed up as a race. `incomplete`: `session` lacks events.
        Returns: the figures, None if there was no turn.
        """
        if self._stream is not None:
            self._stream.end_line()
        decoded = [number for number, lane in self.ledger.lanes.items() if lane.turns]
        if not decoded:
            return None
        figures: Summary | RaceSummary
        if len(decoded) > 1:
            figures = race_summary(self.ledger, session=session)
        else:
            figures = summary(self.ledger, lane=decoded[0], session=session)
        if self._stream is None:
            write_json(msgspec.to_builtins(figures))
        else:
            if isinstance(figures, RaceSummary):
                lines = race_lines(figures, list(lane_labels(race_turns(self.ledger)).values()))
            else:
                lines = summary_lines(figures, incomplete=incomplete)
            note("\n".join(lines))
        return figures

    def error(self) -> str | None:
        """Why lane 0's newest turn failed, None if it did not."""
        lane = self.ledger.lanes.get(0)
        end = lane.turns[-1].end if lane and lane.turns else None
        if end is None:
            return "The request did not finish."
        return (end.error or "The request failed.") if end.stop_reason == "error" else None


def text_of(event: Event) -> str:
    """The text an event adds to its turn."""
    if isinstance(event, Round):
        return "" if event.discarded else "".join(event.text)
    return event.text if isinstance(event, Prefill | TurnEnd) else ""


def summary_lines(figures: Summary, *, incomplete: bool = False) -> list[str]:
    """A turn's summary in two lines for people; what does not apply is left out."""
    speed = [
        f"{figures.n_tokens} tokens in {figures.rounds} round{'' if figures.rounds == 1 else 's'}",
        _figure("τ {:.2f}", figures.tokens_per_round),
        _figure("α {:.3f}", figures.acceptance_rate),
        _figure("hit rate {:.2f}", figures.branch_hit_rate),
        _figure("{:.1f} tok/s decode", figures.tokens_per_s),
        _figure("{:.2f} ms/token", figures.ms_per_token),
        _figure("prefill {:.0f} ms", figures.prefill_ms),
        _figure("overlap {:.0f} ms", figures.overlap_ms),
        _launches(figures.host_launches_per_round),
        _figure("stopped by {}", figures.stop_reason),
    ]
    setup = [
        figures.decoder.upper(),
        _figure("draft {}", figures.draft),
        f"recipe {figures.recipe}",
        " + ".join(figures.devices),
        _figure("incomplete recording {}" if incomplete else "recording {}", figures.session),
    ]
    return [" · ".join(part for part in line if part) for line in (speed, setup)]


def race_lines(figures: RaceSummary, labels: Sequence[str] = ()) -> list[str]:
    """A race's standings as a table, and what can be said about its outputs.

    `labels`: of the lanes; without them their decoders stand there.
    """
    named = labels or [lane.decoder.upper() for lane in figures.lanes]
    cells = max(7, *map(len, named))
    rows = [f"lane  {'decoder':<{cells}}  tokens  rounds      τ  ms/token   hit  ratio"]
    for number, (lane, ratio) in enumerate(zip(figures.lanes, figures.ratios, strict=True)):
        rows.append(
            f"{'ABCD'[number]:<6}{named[number]:<{cells}}{lane.n_tokens:>8}{lane.rounds:>8}"
            f"{_figure('{:.2f}', lane.tokens_per_round) or 'n/a':>7}"
            f"{_figure('{:.2f}', lane.ms_per_token) or 'n/a':>10}"
            f"{_figure('{:.2f}', lane.branch_hit_rate) or '–':>6}"
            f"{_figure('{:.2f}×', ratio) or 'n/a':>7}"
        )
    compared = "All outputs" if None not in figures.ratios else "The outputs that can be compared"
    outputs = {
        True: f"{compared} are equal.",
        False: f"Outputs differ from token {figures.first_difference} on.",
        None: "Outputs are not compared.",
    }
    reference = figures.ratios.index(1.0) if 1.0 in figures.ratios else 0  # those before it have no ratio
    basis = f" Lane {'ABCD'[reference]} is the reference." if reference else ""
    return [*rows, outputs[figures.equal] + basis]


def _launches(mean: float | None) -> str:
    return "" if mean is None else f"{launches(mean)} a round"


def _figure(form: str, value: object) -> str:
    return "" if value is None else form.format(value)
