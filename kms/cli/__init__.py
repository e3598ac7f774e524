"""Command line of the key-release service: one function per command."""
