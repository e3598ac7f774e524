"""The confidential RAG sample: questions about a user's documents, answered by an attested machine.

``enclave`` is the service that runs inside the TEE, ``client`` the library and command line for its users. Both use the
public names of ``attest``.
"""
