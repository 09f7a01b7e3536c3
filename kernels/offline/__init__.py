"""What the GPU compilers make of every kernel in use, found out without a GPU."""
