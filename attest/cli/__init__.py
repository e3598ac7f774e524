"""The command line. ``attest.cli.main`` is the entry point; each command lives in a module of its own."""
