"""Reading the winner from the logits."""
