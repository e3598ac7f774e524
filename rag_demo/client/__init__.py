"""How people and programs ask the service: a Python client, and a chat in the terminal.

Neither sends a word before the machine has met its user's policy.
"""
