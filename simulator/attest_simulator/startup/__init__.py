"""Folder that ``attest simulate machine`` puts on the import path of a program."""
