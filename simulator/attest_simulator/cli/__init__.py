"""``attest simulate``: commands that ``attest`` finds through this distribution's entry points."""
