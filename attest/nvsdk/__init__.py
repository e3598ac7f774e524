"""NVIDIA's Python SDK as a second opinion and a second collector, in a separate interpreter.

Its packages pin old versions of ``cryptography``, ``PyJWT`` and even ``pytest``, so they need a separate
environment (``environment.py``); a program in it calls them (``worker.py``), and exchanges JSON
(``protocol.py``). The result is shown beside the Attestation Result and never changes it.
"""

from __future__ import annotations

from attest.nvsdk.environment import NvsdkEnvironment, find_environment, install, install_commands, installation_folder
from attest.nvsdk.opinion import Pair, SecondOpinion, pair_documents, second_opinion, side_by_side
from attest.nvsdk.protocol import SdkDevice, collect_with_sdk, device_with_rims, examine, sdk_versions, time_sdk

__all__ = [
    "NvsdkEnvironment",
    "Pair",
    "SdkDevice",
    "SecondOpinion",
    "collect_with_sdk",
    "device_with_rims",
    "examine",
    "find_environment",
    "install",
    "install_commands",
    "installation_folder",
    "pair_documents",
    "sdk_versions",
    "second_opinion",
    "side_by_side",
    "time_sdk",
]
