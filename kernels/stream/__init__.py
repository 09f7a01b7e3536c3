"""Weight-streaming matmuls for 1–16 rows, fused with what comes after them (Triton)."""
