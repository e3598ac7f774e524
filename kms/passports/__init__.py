"""The passport model: what another Verifier found takes the place of evidence, for keys whose policy says so."""
