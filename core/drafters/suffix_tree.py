"""A suffix tree that grows with the text, and counts: what followed the text's last tokens, how often.

A node stands for a string of up to `depth` tokens. One that occurred once is a leaf: it holds where it goes on in the text
and gets children when it occurs again. A new token thus costs as many steps as the longest match behind it is long.
Source: Oliaro et al. 2024, "SuffixDecoding"; leaves that point into the text as in Ukkonen 1995.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice


class _Node:
    """`count` occurrences; `after` is the position that follows the newest one. `children` None: a leaf."""

    __slots__ = ("after", "children", "count")

    def __init__(self, count: int, after: int, children: dict[int, _Node] | None = None) -> None:
        self.count, self.after, self.children = count, after, children


@dataclass(frozen=True, kw_only=True)
class Match:
    """The longest known suffix, of `length` tokens, and what followed it: (token, times), most often and newest first."""

    length: int
    followers: list[tuple[int, int]]

    def probability(self, times: int) -> float:
        """Of a follower. Something never seen is worth one occurrence, shared out over the match's tokens."""
        return times / (sum(n for _, n in self.followers) + 1 / self.length)


class SuffixTree:
    """Of one text, whose suffixes are followed up to `depth` tokens."""

    def __init__(self, depth: int = 16) -> None:
        self._depth = depth
        self._text: list[int] = []
        self._root = _Node(0, 0, {})
        self._ends = [self._root]  # of the text's last 0, 1, 2, … tokens, as far as they occurred before

    def add(self, token: int) -> None:
        """Append to the text."""
        self._text.append(token)
        grown = [
            self._grow(depth, token) for depth in reversed(range(len(self._ends)))
        ]  # leaves before their parents
        self._ends = [self._root, *(node for node in reversed(grown) if node is not None)]

    def _grow(self, depth: int, token: int) -> _Node | None:
        """One more occurrence of a suffix with `token` behind it. Returns: its node where it occurred before."""
        children, after = self._ends[depth].children, len(self._text)
        if children is None:
            return None
        child = children.get(token)
        if child is None:
            children[token] = _Node(1, after)
            return None
        if child.children is None and depth + 1 < self._depth:
            child.children = {self._text[child.after]: _Node(1, child.after + 1)}
        child.count, child.after = child.count + 1, after
        return child

    def match(self, ahead: Sequence[int]) -> Match | None:
        """Of the text with `ahead` behind it; None where no suffix of it is known with something behind."""
        for length, start, tokens in self._suffixes(ahead):
            followers = self._followers(start, tokens, ahead)
            if followers:
                return Match(length=length, followers=followers)
        return None

    def _suffixes(self, ahead: Sequence[int]) -> Iterator[tuple[int, _Node, Sequence[int]]]:
        """The longest first: its length, and from which node which tokens lead to it."""
        for depth in range(len(self._ends) - 1, 0, -1):
            yield depth + len(ahead), self._ends[depth], ahead
        for first in range(len(ahead)):
            yield len(ahead) - first, self._root, ahead[first:]

    def _followers(self, start: _Node, tokens: Sequence[int], ahead: Sequence[int]) -> list[tuple[int, int]]:
        """What stands behind `tokens` after `start`, as in `Match`; empty where they are not there."""
        node, walked = start, 0
        while walked < len(tokens) and node.children is not None:
            child = node.children.get(tokens[walked])
            if child is None:
                return []
            node, walked = child, walked + 1
        if node.children is not None:
            ordered = sorted(node.children.items(), key=lambda item: (-item[1].count, -item[1].after))
            return [(token, child.count) for token, child in ordered]
        rest = len(tokens) - walked
        line = list(islice(self._from(node.after, ahead), rest + 1))
        is_there = len(line) > rest and line[:rest] == [*tokens[walked:]]
        return [(line[rest], node.count)] if is_there else []

    def _from(self, position: int, ahead: Sequence[int]) -> Iterator[int]:
        """The text from `position` on, and `ahead` behind it."""
        yield from self._text[position : position + self._depth + len(ahead) + 1]
        if position + self._depth + len(ahead) + 1 > len(self._text):
            yield from ahead[max(0, position - len(self._text)) :]
