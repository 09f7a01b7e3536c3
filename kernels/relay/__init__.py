"""A round settled on the target's device: its outcome told, and the next draft taken from a board."""
