"""How a prompt is cut into chunks."""

from __future__ import annotations

CHUNK = 256


def chunk_plan(start: int, length: int, chunk: int = CHUNK) -> list[tuple[int, int]]:
    """Cut positions start … start+length-1 at absolute multiples of `chunk`.

    A pure function of its arguments, so that a prompt prefilled from the same position has the same bits for every
    decoder. Returns: (start, length) of each chunk.
    Raises: ValueError for a length below one.
    """
    if length < 1:
        raise ValueError(f"a prompt of {length} tokens")
    plan, end = [], start + length
    while start < end:
        stop = min(end, (start // chunk + 1) * chunk)
        plan.append((start, stop - start))
        start = stop
    return plan
