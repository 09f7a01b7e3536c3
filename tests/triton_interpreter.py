"""Triton's interpreter without its costliest habit.

It replaces every function of Triton's language by an interpreted one, for each launch and again at each call of a device
function, a third of the time that small kernels take. Once a launch is enough, since nothing puts the language back before
the launch ends.
"""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime import interpreter

_replace_language = interpreter._patch_lang


def _replace_once(function: Any) -> Any:
    languages = [value for value in function.__globals__.values() if value is tl or value is tl.core]
    if any(tl.core.is_builtin(language.load) for language in languages):
        return _replace_language(function)
    return interpreter._LangPatchScope()


def replace_language_once_a_launch() -> None:
    """For all launches of this process."""
    interpreter._patch_lang = _replace_once
