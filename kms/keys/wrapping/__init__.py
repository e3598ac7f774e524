"""Back-ends of key-encryption keys, and the key ring of a database."""
