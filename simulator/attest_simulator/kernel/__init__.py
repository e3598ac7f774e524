"""The kernel's interfaces on a simulated machine, for programs that ask the kernel and not ``attest``.

A program sees the machine's files in a mount namespace of its own, with a file system in place of configfs-tsm, or a
software TPM in place of an Azure VM's. Nothing outside of that namespace changes.
"""
