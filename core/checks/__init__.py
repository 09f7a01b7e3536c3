"""Checks: decoders against each other, logits against Hugging Face, recipes against fp32, and which of them have passed."""
