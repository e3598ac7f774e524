"""Root public keys of the vendors, as constants, so that a chain needs no root certificate.

RSA moduli and points are public facts, from the root certificates that AMD's and Intel's services serve and
that NVIDIA publishes. A test compares each with its pin in ``anchors.py``, and with the real certificates if they are
available.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["AMD_ARK_MODULI", "INTEL_SGX_ROOT_POINT", "NVIDIA_DEVICE_ROOT_POINT", "NVIDIA_RIM_ROOT_POINT"]

AMD_ARK_MODULI: Final[Mapping[str, str]] = {
    "Milan": (
        "d0b779d9124e75e88996a2b625db15983ec592dba8b56c17d5f3605b8d5763d5f3d471214949a12f3f42bbd0c7465be0"
        "2523716de618b2725fbf28f1d4c7d4d15e6d90a894d447ac345b5ad644c0d2cccd8ac75873d8acaa4ee65d3e7e29f191"
        "6df73857ff73448704f2394737ad52d63bbc5fddfee9dc4352b1b64b3c6a278061ab2626503aee3d72525f8bd4734d4f"
        "ee3f7c329a8e4bde6b3917461de239d8d6b3e66d81f8efaf8ec0b4eb4777ee363d2c57ae38fe0c7ab8bcaa07e2d92e64"
        "2aa83f685e9a3edb80650551eeedca1585cfe7d5e6260b5ca20d398262344ff3a2b4b86ecd5be965c2e9874a1d87fd48"
        "3d7ab1dfe3278c3f7b03b7d7a6a19dff2f0ac57ee392c4c4cc03a06ca01e6a6de59bedf228871360c96c44c5cf72335b"
        "22f9ac072903fffc529e2bacb870648279443445b1d5471b410aecfa054392e54f86c9f321136062f338f18fbb2c6889"
        "627ae613cc5cadec5e901c6bbdad95f53250aa7377439de4b79be2422dfe8027e69300b4174b62ac865b2e45cfacfc33"
        "67433d78dc6123249bda7a497e09eacf9e48d2edf7c21e2bd1935079319fc34dcc054b72bb319eb0691cc3e968a8c6aa"
        "d6a478b6319b3d8c42be90aaefe3a0a420a830d8addae2e8f4cd7c7c7cf5d2538c4fc9d6014bd1645ced7970a6fbb3c7"
        "7583e5990c14c372ef7a727f20b5e840f1df6e41f40b23df865d635a124565ab"
    ),
    "Genoa": (
        "dc277de52fee14eb9122c916f6fcfd543045ebd343405efda1184bfcbd8f5501a12b761d7c4060a45fc98b058506c4ff"
        "7d70e1cc0d35a772e4713ffb2dd8dc45f2978c797ed10abf338759921e900e851e2b33412c37012830c65a8defdf9372"
        "af16c0d439e463050a5390009383fde2d2972e9f34a31b7ce1a8721e82e673f2eab06b29fa8ab5073e0f3ec60bc131b8"
        "88c29569a4fdd3fa19e08f2889b4abbbddaf26196a58edbb77f47173789433284d7864e83af831fe2528e201a91bad4d"
        "0e990452f233b8a71a331f08753a568360c5e92c05d0881531f7e7bed26603af01c09356a351383cb25d68f7c189f709"
        "a6e045c0d55020f404557dda3fcf47252a7c61b63d972492e8f95512a4c106d6909a2e004c698c47e9f62bf7be240854"
        "d868fb8c8a4984e91d1fd7e2ad00e79a50364857c9fc27349863735bd466221c8e527345a1c966911865dff01053962c"
        "f50b1a9f58d3fc48b24fea42a669c0fb2f5e76f84309b386f05da8c47191753064ca5ba782b917246622c06ad1f246a2"
        "aafecd37c42138132a62371bae412bd1ff1030a925212e6bb8e7ea94b302070f092c1dcb923a5682d0fb3a9c64cd2b28"
        "84de3b5289bce9163a969ef683c7971cfd6a62b9ef873686d52ef4bf0e8e91b69a0bd123887fee1e0009406c689fbbb4"
        "43bc60a1111603f7bb25c050c0b83cd07abfb1b46ea9eb31cfbc01592636e787"
    ),
    "Turin": (
        "c1a02b881ec422e55ce19075c03dd87c3c4bfbd7b24bbfa2ce6d098f75bbef63483425a5f018f7c3f243d998e66d1c56"
        "748abfe1df626ab08aa2b5e5a09501d6345d831a9c713c7568ea22838fb6c355e1555253ecae39ef04f964b3498106b1"
        "a9af44b64c2377afbdb0e86508313d978de443447606291525afeecb254e4b0124e70e6d5ca3ae1bd8efaba42d00c25a"
        "b16dfcc25a910da2841ad67d554806a27dbb66e2f8b1326e0bf6b3cfdfe2401c3c9048a5cce97de4089391e6398d2101"
        "0d66c0aa7664e6a94cee4212286db4920426d789a134a0c8da9da8b9afb3b801bb8b9d9ea68445d867d4d13624ff27fe"
        "bc2341dad9de721150b8fd9ef1b2e4f7965da8f8bdfd45b0e095e3b5d100e2ed896299524943d05405cab7a2d5aae8ed"
        "25c339f492abdaed1743be4ac3170ca75e604978417c89ef3c0c2e018e1d130c06a93f28220e1eb0f1f012c98286161e"
        "0c8c4f1bd4787f1f4ed2aea9f066fe1d7953892e3b3fd60d78ea6274e50acc397f4b53afca10ed48bf0b25cdb84004c5"
        "c9da3f883fca51dbc54d1943d1cae400c9192e8590f212c319ce816495ec75ded97f67b8516ded23fd6887fdaddb73ad"
        "df3ca14dcbf98036c006ed0b8d57bdf2e4674b5e523302bffe526df5ee41a8abe0001912a0005ff81e1516d3d5117d32"
        "82b61a15a23d8b9001af19d5066cd7a516f6d622353653427ce1943c8855a561"
    ),
}
"""Modulus of each AMD Root Key, 4096 bits, big-endian hex; the exponent is 65537."""

INTEL_SGX_ROOT_POINT: Final = (
    "040ba9c4c0c0c86193a3fe23d6b02cda10a8bbd4e88e48b4458561a36e705525f5"
    "67918e2edc88e40d860bd0cc4ee26aacc988e505a953558c453f6b0904ae7394"
)
"""Public key of the Intel SGX Root CA, the one root of SGX and TDX: an uncompressed point of P-256, hex."""

NVIDIA_DEVICE_ROOT_POINT: Final = (
    "040e4c14a33bf8a5626658db4129607e4cbf4519c4412716f4d0d917c4978005bdeabeaefd57bc66082d718a4f8b6052"
    "e1516ee8a7c422b84de857071bb58fd395bea0cfa1c63ee7c80d6bd63901d91cbbd187d3857dc16b5cceaf238ff8c27dbd"
)
"""Uncompressed point on P-384, 97 bytes, of ``NVIDIA Device Identity CA``."""

NVIDIA_RIM_ROOT_POINT: Final = (
    "04b840b28bdbcd33e230da57d4cf2065747030682d4717b4c2829d7641c1325139b74da831c2be3c779e7e2b65489566"
    "080e4ecd94021075c57f15fedeb862c8f906ae8fddc7b12238597dbdf0fa56e78453833f6d0be43af3871a47f057584799"
)
"""Uncompressed point on P-384, 97 bytes, of ``NVIDIA CoRIM signing Root CA``."""
