"""Names, states and decisions of the key-release service: pure, and imported by all its other packages."""
