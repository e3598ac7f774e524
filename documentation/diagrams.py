"""The diagrams of the documentation."""

from collections.abc import Callable, Sequence
from typing import Final

from documentation.drawing import Drawing


def path() -> Drawing:
    """Draw the path from a machine to a key."""
    drawing = Drawing("The path from a machine to a key", 880, 250)
    drawing.frame(15, 15, 250, 220, "Confidential machine", tone="trusted")
    drawing.box(35, 50, 210, 60, "CPU, GPUs, TPM\nsign the evidence", tone="trusted")
    drawing.box(35, 160, 210, 60, "Workload\nHPKE key, then your model", tone="trusted")
    drawing.frame(365, 15, 300, 220, "Key-release service (kms)", tone="service")
    drawing.box(385, 50, 120, 60, "verify\nis it genuine?", tone="service")
    drawing.box(525, 50, 120, 60, "appraise\nyour policy", tone="service")
    drawing.box(385, 160, 260, 60, "decide\nrelease, or an error that says why", tone="service")
    drawing.box(735, 50, 130, 60, "Vendors\nendorsements")
    drawing.box(735, 160, 130, 60, "Transparency\nlog, witnesses", tone="key")
    drawing.arrow((245, 80), (385, 80), "evidence")
    drawing.arrow((505, 80), (525, 80))
    drawing.arrow((585, 110), (585, 160))
    drawing.arrow((385, 190), (245, 190), "key, sealed")
    drawing.arrow((735, 65), (646, 65))
    drawing.arrow((645, 190), (735, 190), "entry")
    drawing.arrow((140, 110), (140, 160))
    return drawing


def trust_model() -> Drawing:
    """Draw the trusted and the untrusted parts."""
    drawing = Drawing("Trusted and untrusted parts", 880, 400)
    drawing.frame(15, 15, 400, 370, "Operator's computer: not trusted", tone="untrusted")
    drawing.box(35, 50, 170, 55, "Host and hypervisor\nmay do anything", tone="untrusted")
    drawing.box(225, 50, 170, 55, "Network and disks\nread, drop, replay", tone="untrusted")
    drawing.frame(35, 130, 360, 235, "TEE: trusted after it is verified", tone="trusted")
    drawing.box(55, 165, 150, 60, "Measured image\nand command line", tone="trusted")
    drawing.box(225, 165, 150, 60, "Workload\nand its HPKE key", tone="trusted")
    drawing.box(
        55, 285, 320, 60, "Hardware: CPU firmware, GPUs, TPM\nsigns measurements and the HPKE key", tone="trusted"
    )
    drawing.arrow((130, 285), (130, 225), "")
    drawing.arrow((300, 225), (300, 285), "")
    drawing.frame(475, 15, 390, 370, "Owner's side: trusted by the owner", tone="service")
    drawing.box(495, 50, 170, 60, "Policy\nreference values", tone="service")
    drawing.box(685, 50, 160, 60, "Trust anchors\nroots of vendors", tone="service")
    drawing.box(495, 165, 350, 60, "Verifier\nsignatures, revocation, freshness, appraisal", tone="service")
    drawing.box(495, 285, 170, 60, "Key\nencrypted at rest", tone="key")
    drawing.box(685, 285, 160, 60, "Log\nevery decision", tone="key")
    drawing.arrow((580, 110), (580, 165))
    drawing.arrow((765, 110), (765, 165))
    drawing.arrow((580, 225), (580, 285))
    drawing.arrow((765, 225), (765, 285))
    drawing.arrow((375, 195), (495, 195), "evidence")
    drawing.arrow((495, 315), (395, 315), "sealed key")
    return drawing


def _sequence(title: str, parties: Sequence[str], steps: Sequence[tuple[int, int, str]]) -> Drawing:
    """Draw messages between parties; a step within one party is a note."""
    gap, top = 230, 60
    drawing = Drawing(title, gap * len(parties) - 20, 90 + 48 * len(steps))
    centre = [105 + gap * number for number in range(len(parties))]
    for x, name in zip(centre, parties, strict=True):
        drawing.rule(x, top, drawing.height - 15)
        drawing.box(x - 85, 15, 170, 40, name, tone="service" if "kms" in name else "plain")
    for number, (source, target, words) in enumerate(steps):
        y = top + 42 + 48 * number
        if source == target:
            drawing.box(centre[source] - 95, y - 22, 190, 34, words, tone="key")
        else:
            side = 3 if target > source else -3
            drawing.arrow((centre[source] + side, y), (centre[target] - side, y), words)
    return drawing


def release() -> Drawing:
    """Draw the messages of a release."""
    steps = (
        (1, 2, "POST /v1/challenges"),
        (2, 1, "nonce, identity of the service"),
        (1, 1, "make an HPKE key pair"),
        (1, 0, "nonce, public key"),
        (0, 1, "signed evidence"),
        (1, 2, "POST /v1/releases: evidence"),
        (2, 2, "verify, appraise, decide"),
        (2, 3, "decision"),
        (3, 2, "signed checkpoint, proof"),
        (2, 1, "sealed key, receipt, lease"),
        (1, 1, "check receipt, open key"),
        (1, 2, "renew: fresh evidence"),
    )
    return _sequence("Messages of a release", ("TEE, GPUs", "workload", "kms", "log"), steps)


def policy() -> Drawing:
    """Draw how a policy is evaluated."""
    drawing = Drawing("Evaluation of a policy", 880, 290)
    drawing.box(15, 30, 150, 60, "Verified evidence\nclaims with origin", tone="trusted")
    drawing.box(15, 120, 150, 60, "Reference values\nmeasurements, RIMs", tone="service")
    drawing.box(15, 210, 150, 60, "Moment\nat, UTC")
    drawing.frame(235, 15, 370, 260, "Policy", tone="service")
    drawing.box(255, 50, 330, 50, "Each section of each device\nevery key gives checks", tone="service")
    drawing.box(255, 120, 330, 50, "any_of, at_least\nthe alternatives are evaluated in full", tone="service")
    drawing.box(
        255,
        205,
        330,
        50,
        "Missing claim, unknown key, no section\na failed check or a refused policy",
        tone="untrusted",
    )
    drawing.box(675, 30, 190, 60, "All checks pass\naffirming", tone="trusted")
    drawing.box(675, 120, 190, 60, "A check is unchecked\nwarning, with the reason", tone="key")
    drawing.box(675, 210, 190, 60, "A check fails\ncontraindicated", tone="untrusted")
    for y in (60, 150, 240):
        drawing.arrow((165, y), (235, y))
        drawing.arrow((605, y), (675, y))
    return drawing


def log() -> Drawing:
    """Draw the transparency log."""
    drawing = Drawing("The transparency log", 880, 320)
    drawing.frame(15, 15, 400, 290, "Merkle tree (RFC 6962)", tone="service")
    for number, name in enumerate(("key\nimported", "policy\nchanged", "release", "freeze")):
        drawing.box(30 + 95 * number, 235, 85, 52, name, tone="key")
    for number in range(2):
        drawing.box(77 + 190 * number, 145, 85, 42, "hash", tone="service")
        drawing.arrow((72 + 190 * number, 235), (107 + 190 * number, 188))
        drawing.arrow((168 + 190 * number, 235), (132 + 190 * number, 188))
    drawing.box(160, 50, 120, 45, "root hash", tone="service")
    drawing.arrow((120, 145), (195, 96))
    drawing.arrow((310, 145), (245, 96))
    drawing.box(485, 45, 170, 60, "Checkpoint\nsize, root, signature", tone="service")
    drawing.arrow((280, 73), (485, 73), "signed")
    drawing.box(715, 45, 150, 60, "Witnesses\ncosign", tone="trusted")
    drawing.arrow((655, 63), (715, 63))
    drawing.arrow((715, 88), (655, 88))
    drawing.box(485, 145, 170, 60, "Workload\nproof of its entry", tone="trusted")
    drawing.box(485, 235, 170, 60, "Monitor\nreads every entry", tone="trusted")
    drawing.box(715, 190, 150, 60, "Auditor\nold and new agree", tone="trusted")
    drawing.arrow((570, 105), (570, 145))
    drawing.arrow((415, 262), (485, 262))
    drawing.arrow((790, 105), (790, 190))
    return drawing


def sealed_model() -> Drawing:
    """Draw the layout of a sealed model."""
    drawing = Drawing("Layout of a sealed model", 880, 300)
    drawing.frame(15, 15, 560, 270, "my-model.sealed: a folder in any object storage", tone="untrusted")
    drawing.box(35, 50, 250, 60, "sealed.json\nnames, sizes, wrapped data key", tone="key")
    drawing.box(305, 50, 250, 60, "model.sig\nthe owner's, over every file", tone="trusted")
    drawing.text(295, 140, "One file of the model: segments of 1 MiB", bold=True)
    for number, name in enumerate(("header", "segment 0", "segment 1", "segment 2", "last")):
        drawing.box(35 + 104 * number, 160, 100, 45, name, tone="plain" if number == 0 else "key")
    drawing.text(295, 235, "AES-256-GCM for each segment, with its position:")
    drawing.text(295, 255, "no segment can be moved, dropped or repeated")
    drawing.box(640, 50, 225, 60, "Key from the service\none model, one version", tone="service")
    drawing.box(640, 160, 225, 60, "Workload\nranges, decrypted in memory", tone="trusted")
    drawing.arrow((752, 110), (752, 160))
    drawing.arrow((556, 182), (640, 182))
    return drawing


def sample() -> Drawing:
    """Draw the parties of the confidential RAG sample."""
    drawing = Drawing("The confidential RAG sample", 880, 330)
    drawing.frame(15, 15, 230, 130, "Model owner", tone="service")
    drawing.box(35, 50, 190, 75, "kms\nkey of the sealed model", tone="service")
    drawing.frame(15, 180, 230, 130, "Document owner", tone="service")
    drawing.box(35, 215, 190, 75, "kms\nkey of the database", tone="service")
    drawing.frame(325, 15, 290, 295, "Operator: sees ciphertext only", tone="untrusted")
    drawing.frame(345, 50, 250, 165, "Enclave", tone="trusted")
    drawing.box(365, 85, 210, 45, "Embedding model", tone="trusted")
    drawing.box(365, 150, 210, 45, "Encrypted database", tone="trusted")
    drawing.box(345, 235, 250, 55, "Sealed model, traffic, logs\nciphertext only", tone="untrusted")
    drawing.frame(695, 15, 170, 295, "User", tone="service")
    drawing.box(710, 50, 140, 75, "Client\nown policy", tone="service")
    drawing.box(710, 195, 140, 75, "Answer\nwith its source", tone="trusted")
    drawing.arrow((365, 98), (226, 80))
    drawing.arrow((226, 110), (365, 116))
    drawing.text(285, 75, "evidence", size=12)
    drawing.text(285, 128, "key", size=12)
    drawing.arrow((365, 165), (226, 232))
    drawing.arrow((226, 262), (365, 185))
    drawing.text(285, 180, "evidence", size=12)
    drawing.text(290, 250, "key", size=12)
    drawing.arrow((710, 88), (576, 107))
    drawing.arrow((576, 172), (710, 222))
    drawing.text(655, 80, "question", size=12)
    drawing.text(655, 180, "answer", size=12)
    return drawing


DIAGRAMS: Final[dict[str, Callable[[], Drawing]]] = {
    "path": path,
    "trust-model": trust_model,
    "release": release,
    "policy": policy,
    "log": log,
    "sealed-model": sealed_model,
    "sample": sample,
}
