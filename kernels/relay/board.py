"""The board: memory of the host that the target's GPU, the engine and the draft worker all reach.

The GPU leaves a record of each round there. The draft worker leaves the branches it prepared for a round, and where the
outcome had none, the draft it made after it. Rounds have serial numbers that are never used twice; what belongs to round s
goes to place s modulo the places there are, and its `seq`, s + 1, is written last: until then it is not there.

Layout, in int64 words: stop, gave_up, then records, branches' keys, their tokens, drafts; behind them, where the drafter
needs the target's features, those of each row, fp32, for the last two rounds. Unused keys are −1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from specmon.kernels.stream.scaled import ROWS
from specmon.kernels.stream.winners import WORDS as WINNERS
from specmon.kernels.stream.winners import Won

HEAD = 16
RECORDS, RECORD = 4, 96  # places, words of each: SEQ … SETTLED, the draft's tokens, the winners
SEQ, DISCARDED, CURSOR, ACCEPTED_LEN, SETTLED = range(5)
DRAFT, WON = 16, 32
TABLES, BRANCHES = 2, 256
TABLE_SEQ = HEAD + RECORDS * RECORD
KEYS = TABLE_SEQ + HEAD
TOKENS = KEYS + TABLES * BRANCHES
DRAFTS = TOKENS + TABLES * BRANCHES * ROWS
DRAFTED = 2 * ROWS  # words of a draft's place: seq, then tokens from word ROWS on
TOTAL = DRAFTS + TABLES * DRAFTED
KEY_SHIFT = 40  # a key is accepted_len · 2^40 + bonus


def key_of(accepted_len: int, bonus: int) -> int:
    """An outcome in one word."""
    return (accepted_len << KEY_SHIFT) + bonus


def words_of(n_features: int) -> int:
    """Words of a board whose features have `n_features` numbers a row."""
    return TOTAL + TABLES * ROWS * n_features * 4 // 8


class Record:
    """What the GPU told of one round. Stamps are its clock's (ns)."""

    def __init__(self, words: NDArray[np.int64]) -> None:
        self.discarded = bool(words[DISCARDED])
        self.cursor, self.accepted_len = int(words[CURSOR]), int(words[ACCEPTED_LEN])
        self.settled = int(words[SETTLED])
        self.draft: list[int] = words[DRAFT : DRAFT + ROWS].tolist()
        self.won = Won(words[None, WON : WON + WINNERS])

    @property
    def bonus(self) -> int:
        return int(self.won.tokens[0, self.accepted_len])


class Board:
    """Views of `memory` int64, [TOTAL] or longer, for the two processes; what either writes the other sees at once."""

    def __init__(self, memory: NDArray[np.int64]) -> None:
        self._memory = memory
        self._records = memory[HEAD:TABLE_SEQ].reshape(RECORDS, RECORD)
        self._table_seq = memory[TABLE_SEQ : TABLE_SEQ + TABLES]
        self._keys = memory[KEYS:TOKENS].reshape(TABLES, BRANCHES)
        self._tokens = memory[TOKENS:DRAFTS].reshape(TABLES, BRANCHES, ROWS)
        self._drafts = memory[DRAFTS:TOTAL].reshape(TABLES, DRAFTED)
        self._features = memory[TOTAL:].view(np.float32).reshape(TABLES, ROWS, -1)

    # --- the engine ------------------------------------------------------------------------------------------

    def stop(self, stopped: bool = True) -> None:
        """Let rounds that are queued end without waiting for a draft; False: from now on they wait again."""
        self._memory[0] = stopped
        self._memory[1] = 0

    @property
    def gave_up(self) -> bool:
        """Whether a round waited for a draft that did not come."""
        return bool(self._memory[1])

    # --- the GPU's records -----------------------------------------------------------------------------------

    def has_record(self, serial: int) -> bool:
        return bool(self._records[serial % RECORDS, SEQ] == serial + 1)

    def record(self, serial: int) -> Record:
        """That of a round there is one of."""
        return Record(self._records[serial % RECORDS].copy())

    def features(self, serial: int, n_rows: int) -> NDArray[np.float32] | None:
        """Of the first rows of a round there is a record of [n_rows, F]; None on a board without."""
        found = self._features[serial % TABLES, :n_rows]
        return found.copy() if found.shape[1] else None

    # --- the draft worker ------------------------------------------------------------------------------------

    def put_branches(self, serial: int, keys: list[int], tokens: list[tuple[int, ...]]) -> None:
        """Hand over the branches finished for the outcomes of round `serial`, each of as many tokens as a draft has."""
        place, n = serial % TABLES, len(keys)
        self._keys[place] = -1
        if n:
            self._keys[place, :n] = keys
            self._tokens[place, :n, : len(tokens[0])] = tokens
        self._table_seq[place] = serial + 1

    def put_draft(self, serial: int, tokens: tuple[int, ...]) -> None:
        """Hand over the draft made after round `serial`, whose outcome had no branch."""
        place = serial % TABLES
        self._drafts[place, ROWS : ROWS + len(tokens)] = tokens
        self._drafts[place, SEQ] = serial + 1
