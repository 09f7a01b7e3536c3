"""Python's search for garbage in cycles, kept out of what is timed.

A full collection walks every object of torch, Triton and the models, for a tenth of a second, whenever enough new ones have
stayed. What is there once all is loaded stays anyway: set aside, it is not looked at again, and a collection takes no time.
"""

from __future__ import annotations

import gc


def set_aside() -> None:
    """Free what is garbage now, and leave everything else out of later collections, until this is called again."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
