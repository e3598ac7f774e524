"""Documents of reference values: added by an operator, verified at every use, and in force while they are current."""
