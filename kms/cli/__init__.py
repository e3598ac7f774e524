"""The command line of the key-release service: one function a command."""
