"""Keccak-256 as Ethereum uses it: the hash of addresses, and of dstack's configuration id.

It differs from SHA3-256 in the padding alone, and the libraries in use do not provide it. Its inputs are short.
"""

from __future__ import annotations

from itertools import pairwise

_RATE = 136
_ROUNDS = 24
_LANE = (1 << 64) - 1
_KECCAK_SUFFIX = 0x01
_LAST_PADDING = 0x80


def keccak256(data: bytes) -> bytes:
    """Return the Keccak-256 digest, 32 bytes."""
    return sponge256(data, suffix=_KECCAK_SUFFIX)


def sponge256(data: bytes, *, suffix: int) -> bytes:
    """Return 32 bytes of Keccak[512]; the suffix begins the padding: 0x01 for Keccak-256, 0x06 for SHA3-256.

    Spec: the Keccak reference, version 3.0: padding 10*1, lanes little-endian; FIPS 202, appendix B.2.
    """
    padded = bytearray(data + bytes([suffix]) + bytes(-(len(data) + 1) % _RATE))
    padded[-1] |= _LAST_PADDING
    state = [0] * 25
    for block in range(0, len(padded), _RATE):
        for lane in range(_RATE // 8):
            state[lane] ^= int.from_bytes(padded[block + 8 * lane : block + 8 * lane + 8], "little")
        state = _permuted(state)
    return b"".join(lane.to_bytes(8, "little") for lane in state[:4])


def _rotated(lane: int, by: int) -> int:
    return (lane << by | lane >> (64 - by)) & _LANE


def _round_constants() -> tuple[int, ...]:
    """Return the constants of step iota, from the linear feedback shift register that defines them."""
    constants: list[int] = []
    register = 1
    for _ in range(_ROUNDS):
        constant = 0
        for power in range(7):
            if register & 1:
                constant |= 1 << ((1 << power) - 1)
            register = register << 1 ^ (0x171 if register & 0x80 else 0)
        constants.append(constant)
    return tuple(constants)


def _path() -> tuple[tuple[int, int], ...]:
    """Return the lanes that steps rho and pi visit, in order, each with the rotation of the lane before it."""
    x, y, lanes = 1, 0, [1]
    for _ in range(24):
        x, y = y, (2 * x + 3 * y) % 5
        lanes.append(x + 5 * y)
    return tuple((lane, (step + 1) * (step + 2) // 2 % 64) for step, (_, lane) in enumerate(pairwise(lanes)))


_CONSTANTS = _round_constants()
_PATH = _path()
_FIRST_LANE = 1
"""The lane at which the path of rho and pi begins."""


def _permuted(state: list[int]) -> list[int]:
    for constant in _CONSTANTS:
        state = _one_round(state, constant)
    return state


def _one_round(state: list[int], constant: int) -> list[int]:
    """Take steps theta, rho with pi, chi and iota."""
    columns = [state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20] for x in range(5)]
    state = [
        lane ^ columns[(number + 4) % 5] ^ _rotated(columns[(number + 1) % 5], 1) for number, lane in enumerate(state)
    ]
    moved = state[_FIRST_LANE]
    for lane, by in _PATH:
        state[lane], moved = _rotated(moved, by), state[lane]
    mixed = [
        state[row + x] ^ (~state[row + (x + 1) % 5] & _LANE & state[row + (x + 2) % 5])
        for row in range(0, 25, 5)
        for x in range(5)
    ]
    mixed[0] ^= constant
    return mixed
