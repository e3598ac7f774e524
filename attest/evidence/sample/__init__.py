"""Trustee's sample evidence, which no hardware signs: one more simulated Attester."""
