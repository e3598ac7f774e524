"""Documents of reference values: taken in by an operator, proved again each time, in force while they are current."""
