"""What an EAGLE-3 head needs beside the streaming kernels: its features fetched, and its input paired and normed."""
