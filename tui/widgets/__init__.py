"""The panels."""
