"""The decoding core: models, decoders, the engine process, events, sessions and metrics."""
