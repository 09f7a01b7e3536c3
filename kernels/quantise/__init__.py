"""Rounding to 8-bit floating point with scales."""
