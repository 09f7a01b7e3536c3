"""How much of a draft the target agrees with."""
