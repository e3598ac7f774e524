"""A release from the challenge to the receipt, and its dependencies."""
