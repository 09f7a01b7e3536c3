"""specmon: a terminal monitor and decoding core for speculative decoding of one request."""

__version__ = "0.1.0"
