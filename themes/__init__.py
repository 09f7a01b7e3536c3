"""Theme data and its loader."""
