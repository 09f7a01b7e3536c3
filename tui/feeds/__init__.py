"""Where a screen's events come from: a running engine or a recording."""
