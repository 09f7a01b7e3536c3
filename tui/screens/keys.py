"""Keys as data: the bindings, the hint row and the help all come from the same entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from string import punctuation

from textual.binding import Binding, BindingsMap
from textual.keys import Keys, _character_to_key

from specmon.core.errors import UsageError
from specmon.tui.screens.arrangement import PANELS
from specmon.tui.widgets.lines import Line, line_width

_NAMES = {
    ",": "comma",
    ".": "full_stop",
    "[": "left_square_bracket",
    "]": "right_square_bracket",
    "{": "left_curly_bracket",
    "}": "right_curly_bracket",
    "-": "minus",
    "+": "plus",
    "=": "equals_sign",
    "?": "question_mark",
    "/": "slash",
}
_MODIFIERS = ("ctrl+", "shift+", "alt+", "meta+", "super+", "hyper+")
_KEY_NAMES = {each.value for each in Keys} | {_character_to_key(char) for char in punctuation}


def is_key(name: str) -> bool:
    """Whether a key is called so: a character, or a Textual name like f2, ctrl+s or full_stop."""
    bare = name.lower() if len(name) > 1 else name
    while bare.startswith(_MODIFIERS):
        bare = bare.partition("+")[2]
    return len(bare) == 1 or bare in _KEY_NAMES


def key(
    keys: str,
    action: str,
    label: str,
    help: str,
    *,
    section: str,
    shown: str | None = None,
    hint: bool = False,
    at_once: bool = False,
) -> Binding:
    """One binding.

    `keys` are single characters or Textual key names separated by spaces; `shown` is how they are written (as
    typed if None); `label` stands in the hint row if `hint`; `help` is the sentence in the help. Its id is the
    name under which a user's config gives it other keys. `at_once`: it acts before a key that follows is told where to go.
    """
    names = ",".join(_NAMES.get(name, name) for name in keys.split())
    return Binding(
        names,
        action,
        label,
        show=hint,
        key_display=shown or keys,
        priority=at_once,
        tooltip=help,
        group=Binding.Group(section),
        id=action_name(action),
    )


def action_name(action: str) -> str:
    """The name of an action in a config file: "freeze", and "select_back" for select(-1)."""
    name, _, rest = action.removeprefix("app.").partition("(")
    value = rest.rstrip(")").strip("'").replace("-", "_")
    return "_".join(filter(None, (name, {"_1": "back", "1": "on"}.get(value, value))))


def remapped(bindings: Iterable[Binding], keys: Mapping[str, str]) -> list[Binding]:
    """The bindings with the keys that `keys` gives some of them by name, written as in `key`.

    Raises: UsageError if that puts two of them on one key.
    """
    result = [_with_keys(binding, keys) for binding in bindings]
    for name, first, second in clashes(result):
        if keys.keys() & {first.id, second.id}:
            raise UsageError(f"The key {name} would do both {first.id} and {second.id}.")
    return result


def clashes(bindings: Iterable[Binding]) -> list[tuple[str, Binding, Binding]]:
    """Keys that do two things: each with its first action and another."""
    taken: dict[str, Binding] = {}
    found = []
    for binding in bindings:
        for name in binding.key.split(","):
            first = taken.setdefault(name, binding)
            if first.id != binding.id:
                found.append((name, first, binding))
    return found


def _with_keys(binding: Binding, keys: Mapping[str, str]) -> Binding:
    wanted = keys.get(binding.id or "")
    if not wanted:
        return binding
    names = ",".join(_NAMES.get(name, name if len(name) == 1 else name.lower()) for name in wanted.split())
    return replace(binding, key=names, key_display=wanted)


def rebound(bound: BindingsMap, bindings: Iterable[Binding]) -> BindingsMap:
    """`bound` with these bindings in place of those with the same ids."""
    bindings = list(bindings)
    ids = {binding.id for binding in bindings}
    kept = [binding for _, binding in bound if binding.id is None or binding.id not in ids]
    return BindingsMap([*kept, *bindings])


def panel_keys() -> list[Binding]:
    """1 to 8: one panel over the whole body, and back."""
    return [
        key(
            str(n),
            f"zoom('{panel}')",
            "panel",
            "show panel 1-8 alone, and back",
            section="Panels",
            shown="1-8",
            hint=n == 1,
        )
        for n, panel in enumerate(PANELS, start=1)
    ]


def entries(bindings: Iterable[Binding]) -> list[Binding]:
    """The bindings a help page lists: one for each way of writing the keys, if it has a help sentence."""
    seen: dict[tuple[str | None, str], Binding] = {}
    for binding in bindings:
        if binding.tooltip:
            seen.setdefault((binding.key_display, binding.tooltip), binding)
    return list(seen.values())


def hint_line(bindings: Iterable[Binding], cells: int) -> Line:
    """The hint row: as many hints as fit, in their order; the last two (help and quit) always."""
    gap = "  " if cells >= 120 else " "
    shown = [(b.key_display or b.key, b.description) for b in entries(bindings) if b.show]
    hints: list[Line] = [[(keys, "accent"), (f" {label}{gap}", "muted")] for keys, label in shown]
    keep, last = hints[:-2], hints[-2:]
    room = cells - 1 - sum(map(line_width, last))
    line: Line = [(" ", "text")]
    for hint in keep:
        if line_width(hint) > room:
            break
        room -= line_width(hint)
        line += hint
    return line + [segment for hint in last for segment in hint]
