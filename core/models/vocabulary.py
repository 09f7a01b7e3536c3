"""Models of one tokenizer whose vocabularies differ in rows: Qwen2.5's are padded to 151,936 at 0.5B, 152,064 at 7B."""

from __future__ import annotations

from dataclasses import replace

from specmon.core.errors import SpecmonError
from specmon.core.models.tensors import Stored, TensorFile
from specmon.core.models.tokenizer import Tokenizer

#: Rows of the one tokenizer of Qwen2.5 and Qwen3, as sizes of the models pad it.
_QWEN_ROWS = frozenset({151_936, 152_064})
_TABLES = ("model.embed_tokens.weight", "lm_head.weight")


def same_tokens(one: Tokenizer, other: Tokenizer) -> bool:
    """Whether both have ids in common, and each of those is the same token in both."""
    ours, theirs = one.tokens(), other.tokens()
    common = ours.keys() & theirs.keys()
    return bool(common) and all(ours[i] == theirs[i] for i in common)


def same_by_rows(one: int, other: int) -> bool:
    """Whether so many rows are of one vocabulary, as far as that can be told without a tokenizer to look at."""
    return one == other or {one, other} <= _QWEN_ROWS


class FirstRows:
    """A model's file without the rows of its vocabulary past the first `n_rows`."""

    def __init__(self, file: TensorFile, n_rows: int) -> None:
        self._file = file
        self.where = file.where
        self.config = replace(file.config, vocab_size=n_rows)

    def names(self) -> frozenset[str]:
        return self._file.names()

    def read(self, name: str) -> Stored:
        """Raises: SpecmonError also where a table has not the rows that the configuration says."""
        stored = self._file.read(name)
        if name not in _TABLES:
            return stored
        found, said = len(stored.data), self._file.config.vocab_size
        if found != said:
            raise SpecmonError(
                f"{self.where} stores {name} with {found} rows where its configuration says {said}."
            )
        n_rows, scale = self.config.vocab_size, stored.scale
        return replace(stored, data=stored.data[:n_rows], scale=scale[:n_rows] if scale is not None else None)
