"""GGUF block formats to plain tensors, and to per-channel int8."""
