"""Key-release service: challenge, proof, decision, sealed keys, and a log of all of them."""
