"""Names, states and decisions of the key-release service: pure, and below everything else of it."""
