"""Azure's secure key release (SKR), for unchanged programs that use Key Vault or Managed HSM.

A caller with a token of the login service makes keys, each with a release policy. A program in a confidential VM sends
the token of a Verifier, which names a key of that VM, and gets the vault's key encrypted to it. A key of the vault is a
key of this service under an alias, and its release is a decision like every other.

Spec: specs/azure-skr.md.
"""
