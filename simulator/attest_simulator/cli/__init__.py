"""``attest simulate``: commands that the ``attest`` command finds by the entry points of this distribution."""
