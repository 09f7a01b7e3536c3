"""What `specmon models check-head` writes: an EAGLE-3 head's acceptance in each reading of it."""

from __future__ import annotations

from specmon.core.errors import UsageError
from specmon.tui.commands.output import say, write_line


def report(head: str, target: str, recipe: str, devices: str) -> bool:
    """Try the head and write a line a reading. Returns: whether it is loaded in the best one, and accepts something.

    Raises: UsageError where there is no such head; SpecmonError where it does not fit the target.
    """
    from specmon.core.engine.messages import LaneConfig
    from specmon.tui.commands.prepare import prepare

    prepare([LaneConfig(decoder="sd", target=target, draft=head)])
    from specmon.core.drafters.eagle3_file import is_eagle3
    from specmon.core.drafters.head_check import check_head, doubts
    from specmon.core.drafters.registry import resolve_name
    from specmon.core.hardware import resolve_devices
    from specmon.core.models.hf_folder import HfFolder
    from specmon.core.models.pool import ModelPool, unwatched
    from specmon.core.models.source import open_model

    pool = ModelPool()
    file = open_model(resolve_name(head, target), pool.cache_dir).file
    if not isinstance(file, HfFolder) or not is_eagle3(file.raw_config):
        raise UsageError(f"{head} is no EAGLE-3 head.", "Give a head's folder or hub id.")
    device = resolve_devices(devices).names[0]
    loaded = pool.target(target, recipe, device, unwatched)
    for doubt in doubts(file, loaded.model.config):
        write_line(f"doubt      {doubt}")
    found = check_head(file, loaded)
    for i, trial in enumerate(found.trials):
        loaded_so = " (as it is loaded)" if i == 0 else ""
        write_line(f"{trial.accepted:3d} of {trial.judged}  {trial.reading.what}{loaded_so}")
    if found.warning is not None:
        say(found.warning)
    return found.warning is None
