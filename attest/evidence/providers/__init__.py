"""Whole attestation documents of confidential-inference services: several machines, their keys, and how they are bound.

``families.py`` recognises a document and cuts it into machines, ``judgement.py`` compares each machine's statements
with what its hardware signed. One module for each family of documents states the construction of REPORT_DATA.

Spec: specs/providers.md.
"""
