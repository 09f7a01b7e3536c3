"""How a prompt is cut into chunks, and what sizes they are padded to on a GPU."""

from __future__ import annotations

from bisect import bisect_left

CHUNK = 256

#: Positions of a prompt that a drafter with the target's features takes in at once.
FEATURES_CHUNK = 2048

#: Rows that a chunk's matmuls have on a GPU, so that one CUDA graph, or one choice of the library, serves many. Large ones
#: are multiples of 512: at most 511 rows are padding. The largest gives matmuls whole waves of tiles; 2,048 rows leave the
#: second of two waves a third empty (7B's o and down in tiles of 128 × 256, 132 SMs).
SIZES: tuple[int, ...] = (64, 128, 256, *range(512, 8193, 512))


def size_for(n_rows: int) -> int:
    """The smallest of SIZES that holds `n_rows`."""
    return SIZES[bisect_left(SIZES, n_rows)]


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
