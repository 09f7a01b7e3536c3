"""A lane: one decoder configured and ready, that turns requests into events."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Iterator, Mapping

import torch

from specmon.core.decoders.check import check_config, fan_out_of
from specmon.core.decoders.choose import Chooser
from specmon.core.decoders.fan_out import FanOut
from specmon.core.decoders.queued import MOST_EOS, queued_ar, queued_rounds
from specmon.core.decoders.rounds import Ready, ar_rounds, sd_rounds, ssd_rounds
from specmon.core.decoders.run import Limits, Run
from specmon.core.decoders.setup import doubtful_head, open_link, turn_config
from specmon.core.decoders.target import PrefilledChunk, Target
from specmon.core.decoders.text_out import TextOut
from specmon.core.device_clock import open_clock
from specmon.core.drafters.base import TO_COME, Proposal
from specmon.core.drafters.link import DraftLink, WorkerLink
from specmon.core.drafters.shared_board import SharedBoard
from specmon.core.engine.messages import LaneConfig, Request
from specmon.core.errors import SpecmonError, UsageError
from specmon.core.events import DeviceBytes, Event, Lane, Prefill, PrefillChunk, Span, Turn, Vocabulary
from specmon.core.hardware import target_devices
from specmon.core.models.pool import ModelPool, Progress
from specmon.core.models.queued import QueuedRounds


class DecodeLane:
    """One decoder with its target, drafter and KV caches.

    Args:
        config: `devices` names them, comma-separated: the target's, then the draft's; one name shares it.
        pool: where targets are loaded and shared. progress: told what loading does.
        clock: ns since the stream's zero, monotonic and the same in every process.
        cores: the CPU core of each "cpu:N".
        link: a drafter to use instead of the one `config.draft` names.
    Raises: UsageError or SpecmonError where the configuration cannot work.
    """

    def __init__(
        self,
        config: LaneConfig,
        *,
        pool: ModelPool,
        progress: Progress,
        clock: Callable[[], int],
        cores: Mapping[str, int] | None = None,
        link: DraftLink | None = None,
    ) -> None:
        check_config(config)
        self.config, self._clock = config, clock
        devices = tuple(config.devices.split(","))
        self._target_devices = target_devices(devices)
        self._devices = self._target_devices if config.decoder == "ar" else tuple(dict.fromkeys(devices))
        self._link = link
        self._queued: QueuedRounds | None = None
        self._board: SharedBoard | None = None  # AR's own
        self._head_doubt: str | None = None
        if config.decoder != "ar" and link is None:
            self._link = open_link(config, self._devices, pool.cache_dir, clock, cores or {}, progress)
        try:
            self._loaded = pool.target(
                config.target,
                config.recipe,
                self._devices[0],
                progress,
                config.backend,
                self._target_devices[1:],
            )
            self._target = Target(self._loaded, self._devices[0], graphs=config.graphs)
            self._device_clock = open_clock(self._devices[0], clock) if self._loaded.streamed else None
            if self._link is not None:
                self._link.timed_by(self._device_clock)
                progress(f"loading draft {config.draft}", None)
                if self._link.info.tap_layers and link is None:
                    self._head_doubt = doubtful_head(config, self._loaded, pool.cache_dir, progress)
            progress("warming up", None)
            self._queued = self._open_queued()
            self._warm(progress)
        except BaseException:
            self.close()
            raise
        self._current: Run | None = None
        self._fan_outs: dict[int, FanOut] = {}
        self.hashes = {"target": self._loaded.source.fingerprint()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about this configuration."""
        notes = []
        if self.config.decoder == "ssd" and len(self._devices) == 1:
            notes.append("SSD on one device prepares branches before each verification: nothing overlaps.")
        info = self._link.info if self._link else None
        if info is not None and info.kind == "scripted":
            notes.append(
                f"The draft is {info.label}: it knows the text, acceptance and hits are chosen, not measured."
            )
        if info is not None and info.longest is not None and self.config.draft_len > info.longest:
            notes.append(
                f"A draft of {info.label} has at most {info.longest} tokens, not {self.config.draft_len}."
            )
        if self._head_doubt is not None:
            notes.append(self._head_doubt)
        if not self.config.graphs:
            without = "no pass is captured" if self._loaded.streamed else "this backend captures none anyway"
            notes.append(f"CUDA graphs are off: {without}.")
        return tuple(notes)

    def describe(self, lane: int, t: int) -> Lane:
        info = self._link.info if self._link else None
        return Lane(
            t=t,
            lane=lane,
            decoder=self.config.decoder,
            target=self._loaded.source.label,
            drafter=info.label if info else None,
            drafter_kind=info.kind if info else None,
            recipe=self._loaded.recipe.name,
            backend=self._loaded.recipe.backend,
            devices=self._devices,
            target_weight_bytes=self._loaded.model.weight_bytes,
            draft_weight_bytes=info.weight_bytes if info else None,
            kv_bytes_per_token=self._target.kv.bytes_per_token,
            draft_kv_bytes_per_token=info.kv_bytes_per_token if info else None,
            context_length=self._loaded.context_length,
        )

    def generate(
        self, request: Request, *, lane: int, turn: int, cancelled: Callable[[], bool]
    ) -> Generator[Event]:
        """Decode one turn: `Turn`, `Prefill`, rounds with the text of new ids before them, `TurnEnd`."""
        events = self._generate(request, lane, turn, cancelled)
        try:
            while True:
                with torch.inference_mode():  # not while the caller has its turn
                    event = next(events, None)
                if event is None:
                    return
                yield event
        finally:
            with torch.inference_mode():
                events.close()

    def forget(self) -> None:
        """Let the next turn start cold: nothing of the turns before is reused, nor what the fan-out learned from them."""
        self._target.forget()
        self._fan_outs.clear()

    def now(self) -> int:
        return self._clock()

    def pause_after_round(self) -> None:
        """Let the round now asked for be the last before a pause: it counts what it leaves running to itself."""
        if self._current is not None:
            self._current.pausing = True

    def resume(self) -> None:
        """End a pause: the next round starts now."""
        if self._current is not None:
            self._current.resume()

    def measure_ar(self, steps: int) -> tuple[int, int]:
        """Time AR steps at the present KV length. Returns: KV length, median ns a step.

        Raises: SpecmonError before the first turn.
        """
        if not self._target.held:
            raise SpecmonError("No AR step can be measured before the first turn.", "Send a prompt first.")
        with torch.inference_mode():
            times = self._target.time_steps(steps, self._clock)
        return len(self._target.held), int(statistics.median(times))

    def close(self) -> None:
        if self._queued is not None:
            self._queued.stop()
        if self._link is not None:
            self._link.close()
        if self._board is not None:
            self._board.unpin()

    # --- one turn ----------------------------------------------------------------------------------------------

    def _generate(
        self, request: Request, lane: int, turn: int, cancelled: Callable[[], bool]
    ) -> Generator[Event]:
        tokens, config = self._encode(request), turn_config(self.config, request)
        failed = self._revive()
        start = self._target.reusable(tokens)
        yield self._turn_event(request, config, tokens, start, lane, turn)
        if failed is not None:
            raise failed
        if self._device_clock is not None:
            yield self._device_clock.measure(t=self._clock(), lane=lane, turn=turn)
        chooser = Chooser(request.sampling, request.seed)
        if self._link and self._link.info.kind == "scripted":
            self._link.script(self._true_text(tokens, start, request, chooser))
        text = TextOut(self._loaded.tokenizer, request.stop_strings)
        prefill = self._prefill(tokens, start, chooser, text, lane, turn)
        assert prefill.token_one is not None
        pieces = text.new_pieces([prefill.token_one])
        run = self._run(request, chooser, text, prefill.token_one, prefill.t, cancelled, lane, turn)
        self._current = run
        yield Vocabulary(t=prefill.t, lane=lane, turn=turn, pieces=pieces)
        yield prefill
        yield from self._rounds(run, config)
        yield run.end()

    def _revive(self) -> SpecmonError | None:
        """Start the drafter again if it died. Returns: why it could not be, for the turn to end with once it began."""
        try:
            if self._link is not None and self._link.revive():
                self._target.forget()
        except SpecmonError as failed:
            self._target.forget()
            return failed
        return None

    def _encode(self, request: Request) -> list[int]:
        tokenizer = self._loaded.tokenizer
        if not any(content.strip() for role, content in request.messages if role == "user"):
            raise UsageError("The prompt is empty.", "Write something to decode from.")
        if request.raw:
            tokens = tokenizer.encode("".join(content for _, content in request.messages))
        else:
            tokens = tokenizer.encode_chat(request.messages)
        limit = self._loaded.context_length
        if not tokens:
            raise UsageError("The prompt has no tokens.", "Write something to decode from.")
        if len(tokens) >= limit:
            raise UsageError(
                f"The prompt has {len(tokens)} tokens; {self._loaded.source.label} takes {limit - 1} here.",
                "Shorten it, or start a new conversation.",
            )
        return tokens

    def _turn_event(
        self, request: Request, config: LaneConfig, tokens: list[int], start: int, lane: int, turn: int
    ) -> Turn:
        speculative = self._link is not None
        return Turn(
            t=self._clock(),
            lane=lane,
            turn=turn,
            prompt=next((content for role, content in reversed(request.messages) if role == "user"), None),
            prompt_tokens=len(tokens),
            reused_tokens=start,
            draft_len=config.draft_len if speculative else 0,
            fan_out=self._fan_out(config).widths() if config.decoder == "ssd" else None,
            sampling=request.sampling,
            seed=request.seed,
            max_new_tokens=request.max_new_tokens,
            stop_strings=request.stop_strings,
            fan_out_budget=config.branch_budget if config.decoder == "ssd" else None,
            draft_nodes=config.draft_nodes or None if speculative else None,
        )

    def _prefill(
        self, tokens: list[int], start: int, chooser: Chooser, text: TextOut, lane: int, turn: int
    ) -> Prefill:
        """Run the prompt and hand the context to the drafter."""
        t0 = self._clock()
        taps = self._link.info.tap_layers if self._link else ()
        if self._link and not taps:
            self._link.begin(
                [*tokens, TO_COME], None, start
            )  # the draft takes the prompt in while the target does
        chunks, features = [], []
        part: PrefilledChunk | None = None
        before = self._clock()
        for part in self._target.prefill(tokens, start, chooser, taps):
            now = self._clock()
            chunks.append(PrefillChunk(part.start, part.length, before, now))
            before = now
            if part.features_NF is not None:
                features.append(part.features_NF)
        assert part is not None
        assert part.choice is not None
        if self._link:
            self._link.begin([*tokens, part.choice], torch.cat(features) if taps else None, start)
        done = chunks[-1].t1
        return Prefill(
            t=done,
            lane=lane,
            turn=turn,
            t0=t0,
            chunks=tuple(chunks),
            token_one=part.choice,
            text=text.push(part.choice),
            spans=tuple(
                Span(device, "main", "prefill", c.t0, c.t1, 0)
                for c in chunks
                for device in range(len(self._target_devices))
            ),
            bytes=self._prefill_bytes(chunks),
        )

    def _prefill_bytes(self, chunks: list[PrefillChunk]) -> tuple[DeviceBytes, ...]:
        positions = sum(chunk.start + chunk.length for chunk in chunks)
        first, *others = (len(chunks) * weights for weights in self._target.model.weight_bytes_by_device)
        kv_bytes = positions * self._target.kv.bytes_per_token
        shared = (DeviceBytes(i, weights, 0, 0) for i, weights in enumerate(others, start=1))
        return DeviceBytes(0, first, kv_bytes, 0), *shared

    def _run(
        self,
        request: Request,
        chooser: Chooser,
        text: TextOut,
        token_one: int,
        started: int,
        cancelled: Callable[[], bool],
        lane: int,
        turn: int,
    ) -> Run:
        info = self._link.info if self._link else None
        return Run(
            target=self._target,
            text=text,
            chooser=chooser,
            limits=Limits(
                max_new_tokens=request.max_new_tokens,
                eos_ids=frozenset((*self._loaded.tokenizer.eos_ids, *request.eos_ids)),
                context_length=self._loaded.context_length,
            ),
            clock=self._clock,
            cancelled=cancelled,
            lane=lane,
            turn=turn,
            pending=token_one,
            started=started,
            taps=info.tap_layers if info else (),
            draft_device=len(self._devices) - 1 if self._link else 0,
            drafter=info.kind if info else None,
            device_clock=self._device_clock,
        )

    def _rounds(self, run: Run, config: LaneConfig) -> Iterator[Event]:
        link = self._link
        queued = self._queued if run.is_greedy and len(run.eos_ids) <= MOST_EOS else None
        if link is None:
            if queued is not None:
                yield from queued_ar(run, queued)
            yield from ar_rounds(run)
            return
        fan_out = self._fan_out(config) if config.decoder == "ssd" else None
        ready: Ready | None = None
        if queued is not None and isinstance(link, WorkerLink):
            ready = yield from queued_rounds(run, link, queued, config.draft_len, fan_out)
        if fan_out is None:
            yield from sd_rounds(run, link, config.draft_len, ready)
        else:
            yield from ssd_rounds(run, link, config.draft_len, fan_out, ready)

    def _fan_out(self, config: LaneConfig) -> FanOut:
        """For drafts of this length; what it learned in earlier turns stays."""
        if config.draft_len not in self._fan_outs:
            self._fan_outs[config.draft_len] = fan_out_of(config)
        return self._fan_outs[config.draft_len]

    def _true_text(self, tokens: list[int], start: int, request: Request, chooser: Chooser) -> list[int]:
        """Decode the request with AR, for a scripted drafter to know; nothing of it is shown or kept."""
        *_, last = self._target.prefill(tokens, start, chooser, ())
        assert last.choice is not None
        silent = TextOut(self._loaded.tokenizer, request.stop_strings)
        silent.push(last.choice)
        run = self._run(request, chooser, silent, last.choice, 0, lambda: False, 0, 0)
        truth = [*tokens, last.choice]
        while run.going():
            sheet = run.open_round()
            run.begin(sheet, Proposal(tokens=()))
            run.verify(sheet)
            truth += sheet.emitted
        return truth

    def _open_queued(self) -> QueuedRounds | None:
        """Rounds that GPUs run without the host between them, where the backend and the drafter allow it.

        A drafter that shares the target's device, may propose less than asked for, or drafts trees, is served by the host.
        """
        link, on_gpus = self._link, all(name.startswith("cuda") for name in self._devices)
        if not (on_gpus and self._target.runs_ahead and self.config.graphs):
            return None
        if link is None:
            self._board = SharedBoard()
            return self._target.queued_rounds(self._board)
        if not isinstance(link, WorkerLink) or link.info.may_fall_short or self.config.draft_nodes:
            return None
        taps = link.info.tap_layers
        return self._target.queued_rounds(link.board(len(taps) * self._target.model.config.hidden_size), taps)

    def _warm(self, progress: Progress) -> None:
        taps = self._link.info.tap_layers if self._link else ()
        drafted = self.config.draft_nodes or self.config.draft_len
        row_counts = (1,) if self._link is None else (1, drafted + 1)
        with torch.inference_mode():
            levels = self.config.draft_len if self._link and self.config.draft_nodes else 0
            self._target.warm(row_counts, taps, progress, levels=levels)
            if self._queued is not None:
                drafted = 0 if self._link is None else self.config.draft_len
                progress(f"capturing graphs: rounds of {drafted}", 1.0)
                self._queued.warm(drafted)
            if self._device_clock is not None:
                self._device_clock.measure(t=self._clock(), lane=0, turn=0)  # compiles
