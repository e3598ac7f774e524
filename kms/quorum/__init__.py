"""Changes that need a quorum: proposals, signatures over them, and their execution."""
