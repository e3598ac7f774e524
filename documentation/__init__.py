"""Generators of the documentation: diagrams, the recording of the demonstration, and the reference pages."""
