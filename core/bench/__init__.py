"""Benchmarks: the figures file, and what a measurement has to say about where it was taken."""
