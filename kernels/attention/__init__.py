"""Attention of a few query rows over one sequence's KV cache."""
