"""The start of the distribution's commands, with nothing but the standard library.

It is apart from ``attest`` and ``kms``, so that it runs where an extra is missing or where a package of another
distribution has one of these names.
"""
