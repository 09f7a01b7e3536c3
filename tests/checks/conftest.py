"""Fixtures of the checks' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, and the process stays on all of its cores whatever a command claims."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setattr("specmon.core.drafters.worker.claim_device", lambda device, core: None)
    yield
    torch.set_num_threads(before)
