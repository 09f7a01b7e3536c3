"""The search for better schedules of the streaming matmuls, on the GPU at hand."""
