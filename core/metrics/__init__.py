"""Every number that is shown, computed from events and nowhere else."""
