"""The numeric ops, one a folder, each with its plain-torch reference."""
