"""A verifier in the shape of Microsoft Azure Attestation (MAA), for unchanged guests and for readers of its tokens.

A guest sends evidence over its own runtime data, and gets a token with MAA's claims, signed with the key of
``maa_file``. The token releases nothing here by itself; the key's policy of a Relying Party appraises it.

Spec: specs/azure-skr.md, sections 11 and 12.
"""
