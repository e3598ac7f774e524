"""The known answers of specs/eat-ear.md, section 12: one EAR in every encoding.

The vectors were made elsewhere and checked there with pycose and joserfc.
"""

from datetime import UTC, datetime
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.checks import Tier
from attest.results.ear import Ear, EarAppraisal, TrustVector, VerifierId
from attest.results.raw_signatures import SigningKey

ISSUED, EXPIRES = 1767225600, 1767229200
AT = datetime.fromtimestamp(ISSUED, tz=UTC)
NONCE = bytes(range(32))

ED25519 = SigningKey.of(Ed25519PrivateKey.from_private_bytes(sha256(b"ear-kat-ed25519").digest()), algorithm="EdDSA")
P256 = SigningKey.of(ec.derive_private_key(int.from_bytes(sha256(b"ear-kat-p256").digest(), "big"), ec.SECP256R1()))
ED25519_THUMBPRINT = "4W8kVaxkEWoPxSfCYYXYCpBjst0sixAyZ5zFr9goTy8"
P256_THUMBPRINT = "Vf_TceyrXVpH9xV6VUavG2hTaMKa4KYxFvBnFxBid0U"

EAR = Ear(
    issued_at=ISSUED,
    expires=EXPIRES,
    nonce=(NONCE,),
    status=Tier.WARNING,
    verifier=VerifierId(developer="https://verifier.example", build="demo 1.0"),
    submods={
        "cpu0": EarAppraisal(
            status=Tier.AFFIRMING,
            vector=TrustVector(instance_identity=2, configuration=2, executables=3, hardware=2),
            policy_ids=("policy:kat:1",),
        ),
        "gpu0": EarAppraisal(
            status=Tier.WARNING,
            vector=TrustVector(configuration=2, executables=33, hardware=2),
            policy_ids=("policy:kat:1",),
        ),
    },
)

PAYLOAD_HEX = (
    "a7041a6955c710061a6955b9000a5820000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f1901"
    "09781d7461673a696574662e6f72672c323032363a726174732f65617223303319010aa26463707530a31903e8021903e9a4"
    "00020102020304021903eb816c706f6c6963793a6b61743a316467707530a31903e818201903e9a3010202182104021903eb"
    "816c706f6c6963793a6b61743a311903e818201903eca200781868747470733a2f2f76657269666965722e6578616d706c65"
    "016864656d6f20312e30"
)

COSE_EDDSA_HEX = (
    "d28443a10127a1045820e16f2455ac64116a0fc527c26185d80a9063b2dd2c8b1032679cc5afd8284f2f58d2a7041a6955c7"
    "10061a6955b9000a5820000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f190109781d746167"
    "3a696574662e6f72672c323032363a726174732f65617223303319010aa26463707530a31903e8021903e9a4000201020203"
    "04021903eb816c706f6c6963793a6b61743a316467707530a31903e818201903e9a3010202182104021903eb816c706f6c69"
    "63793a6b61743a311903e818201903eca200781868747470733a2f2f76657269666965722e6578616d706c65016864656d6f"
    "20312e305840071e777c3694c52ee11c9f503341553fa6cae6a63e19bdf8c417824850b6d43c63375e3ff02325027145856f"
    "58c1721d894c53d5f01beea06f9ff3c6a2591909"
)

ES256_SIGNATURE_HEX = (
    "22dd9ab3ba5a35136fb30126c869677f74a5d4c2efff5115d258a1b6b1c5886e6b5bfffaf8e9a2d70c49e92b37835fc6f26e"
    "37bf0f46d2d350f0cf75931d2163"
)

JWT_EDDSA = (
    "eyJhbGciOiJFZERTQSIsInR5cCI6ImVhdCtqd3QiLCJraWQiOiI0VzhrVmF4a0VXb1B4U2ZDWVlYWUNwQmpzdDBzaXhBeVo1ekZy"
    "OWdvVHk4In0.eyJlYXRfcHJvZmlsZSI6InRhZzppZXRmLm9yZywyMDI2OnJhdHMvZWFyIzAzIiwiaWF0IjoxNzY3MjI1NjAwLCJl"
    "eHAiOjE3NjcyMjkyMDAsImVhdF9ub25jZSI6IkFBRUNBd1FGQmdjSUNRb0xEQTBPRHhBUkVoTVVGUllYR0JrYUd4d2RIaDgiLCJl"
    "YXJfc3RhdHVzIjoid2FybmluZyIsImVhcl92ZXJpZmllcl9pZCI6eyJkZXZlbG9wZXIiOiJodHRwczovL3ZlcmlmaWVyLmV4YW1w"
    "bGUiLCJidWlsZCI6ImRlbW8gMS4wIn0sInN1Ym1vZHMiOnsiY3B1MCI6eyJlYXJfc3RhdHVzIjoiYWZmaXJtaW5nIiwiZWFyX3Ry"
    "dXN0d29ydGhpbmVzc192ZWN0b3IiOnsiaW5zdGFuY2UtaWRlbnRpdHkiOjIsImNvbmZpZ3VyYXRpb24iOjIsImV4ZWN1dGFibGVz"
    "IjozLCJoYXJkd2FyZSI6Mn0sImVhcl9hcHByYWlzYWxfcG9saWN5X2lkcyI6WyJwb2xpY3k6a2F0OjEiXX0sImdwdTAiOnsiZWFy"
    "X3N0YXR1cyI6Indhcm5pbmciLCJlYXJfdHJ1c3R3b3J0aGluZXNzX3ZlY3RvciI6eyJjb25maWd1cmF0aW9uIjoyLCJleGVjdXRh"
    "YmxlcyI6MzMsImhhcmR3YXJlIjoyfSwiZWFyX2FwcHJhaXNhbF9wb2xpY3lfaWRzIjpbInBvbGljeTprYXQ6MSJdfX19.2zrzbEW"
    "zRwh1kWE70HSDt7UmhutwPVntCI2A3uWJRSgt50IABuXrsfjE77pGMx6Db9EUUxpCZq-wUxMFnHp3Ag"
)

JWT_ES256 = (
    "eyJhbGciOiJFUzI1NiIsInR5cCI6ImVhdCtqd3QiLCJraWQiOiJWZl9UY2V5clhWcEg5eFY2VlVhdkcyaFRhTUthNEtZeEZ2Qm5G"
    "eEJpZDBVIn0.eyJlYXRfcHJvZmlsZSI6InRhZzppZXRmLm9yZywyMDI2OnJhdHMvZWFyIzAzIiwiaWF0IjoxNzY3MjI1NjAwLCJl"
    "eHAiOjE3NjcyMjkyMDAsImVhdF9ub25jZSI6IkFBRUNBd1FGQmdjSUNRb0xEQTBPRHhBUkVoTVVGUllYR0JrYUd4d2RIaDgiLCJl"
    "YXJfc3RhdHVzIjoid2FybmluZyIsImVhcl92ZXJpZmllcl9pZCI6eyJkZXZlbG9wZXIiOiJodHRwczovL3ZlcmlmaWVyLmV4YW1w"
    "bGUiLCJidWlsZCI6ImRlbW8gMS4wIn0sInN1Ym1vZHMiOnsiY3B1MCI6eyJlYXJfc3RhdHVzIjoiYWZmaXJtaW5nIiwiZWFyX3Ry"
    "dXN0d29ydGhpbmVzc192ZWN0b3IiOnsiaW5zdGFuY2UtaWRlbnRpdHkiOjIsImNvbmZpZ3VyYXRpb24iOjIsImV4ZWN1dGFibGVz"
    "IjozLCJoYXJkd2FyZSI6Mn0sImVhcl9hcHByYWlzYWxfcG9saWN5X2lkcyI6WyJwb2xpY3k6a2F0OjEiXX0sImdwdTAiOnsiZWFy"
    "X3N0YXR1cyI6Indhcm5pbmciLCJlYXJfdHJ1c3R3b3J0aGluZXNzX3ZlY3RvciI6eyJjb25maWd1cmF0aW9uIjoyLCJleGVjdXRh"
    "YmxlcyI6MzMsImhhcmR3YXJlIjoyfSwiZWFyX2FwcHJhaXNhbF9wb2xpY3lfaWRzIjpbInBvbGljeTprYXQ6MSJdfX19.I5AYaMP"
    "IwAHep3iHez0S7Y0tHXuyPy7exKsTVWMdj0ItMHlysjh0YmLfUG8iNwzQyIoVghtA2ov8c1s_6oLwMg"
)
