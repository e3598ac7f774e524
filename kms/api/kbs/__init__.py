"""The protocol of Confidential Containers' Key Broker Service (KBS), RCAR 0.4.0, for unchanged guests.

A guest asks ``/auth`` for a nonce, sends evidence over the nonce and its public key to ``/attest``, and gets a token;
with it, ``/resource/REPOSITORY/TYPE/TAG`` returns a key or a secret, encrypted to that public key. A resource is a key
of this service under an alias, and its release is a decision like every other.

No session is stored: the nonce authenticates itself, and the token carries the evidence, which the release verifies
again.

Spec: specs/kbs-protocol.md.
"""
