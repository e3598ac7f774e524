"""Release of keys, from the challenge to the receipt, and its dependencies."""
