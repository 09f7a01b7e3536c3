"""What lanes come to on this machine, and which checks speak for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from specmon.core.checks.subject import Kind
    from specmon.core.decoders.settle import Settled
    from specmon.core.engine.messages import LaneConfig


def settle_lanes(configs: Sequence[LaneConfig]) -> list[Settled]:
    """What each lane comes to on this machine. Raises: UsageError or SpecmonError for one that cannot work here."""
    from specmon.core.ceilings import cuda_uuids
    from specmon.core.decoders.settle import settle
    from specmon.core.hardware import survey
    from specmon.core.paths import cache_dir

    machine = survey(cuda_uuids())
    return [settle(config, machine, cache_dir()) for config in configs]


def lane_checks(settled: Sequence[Settled]) -> list[tuple[Kind, ...]]:
    """For each lane the checks of `specmon check` that have passed and speak for it."""
    from specmon.core.checks.identify import subject_of
    from specmon.core.checks.records import Records
    from specmon.core.paths import cache_dir

    records = Records.of_user()
    return [records.passed(subject_of(lane, cache_dir())) for lane in settled]
