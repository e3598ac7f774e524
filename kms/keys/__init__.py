"""Keys: names, storage in wrapped form, and access to the plaintext."""
