"""What is published, and how it is made: `make dist`. None of this is in a wheel."""
