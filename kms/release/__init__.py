"""A release from the challenge to the receipt, and what it rests on."""
