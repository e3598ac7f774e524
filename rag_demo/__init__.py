"""The confidential RAG sample: questions about one's documents, answered by a machine that has to prove itself first.

``enclave`` is the service that runs inside the TEE, ``client`` is how people and programs ask it. Both use ``attest``
as anybody else could.
"""
