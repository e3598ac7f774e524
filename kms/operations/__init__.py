"""Work on a whole service: opening it, back-up, check, another key-encryption key."""
