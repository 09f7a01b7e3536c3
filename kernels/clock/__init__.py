"""The device's own time, and how it is asked for it."""
