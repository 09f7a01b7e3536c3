"""`specmon` and its sub-commands, one file each."""
