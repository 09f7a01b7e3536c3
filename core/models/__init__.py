"""Model files, weights, tokenizer, KV cache and the forward pass."""
