"""Tokens drawn from filtered logits, by noise that depends on nothing but seed, position and token."""
