"""What holds key-encryption keys, and the ring of those that a database knows."""
