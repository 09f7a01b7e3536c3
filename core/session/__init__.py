"""The .session file: codec, writer, reader, redaction."""
