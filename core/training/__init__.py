"""Training of drafters on text that their target writes itself."""
