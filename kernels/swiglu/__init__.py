"""The gate of the feed-forward block."""
