"""A change of behaviour is judged; a change of words, types or declarations is not."""

import pytest

from tests.mutants.rules import Span, is_behaviour, left_out


def judged(source: str, part: str) -> bool:
    line = next(number for number, text in enumerate(source.splitlines(), start=1) if part in text)
    begin = source.splitlines()[line - 1].index(part)
    return is_behaviour(Span((line, begin), (line, begin + len(part))), left_out(source))


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("def f(a: int | None) -> None: ...\n", "|"),
        ("def f() -> 'x': ...\n", "'x'"),
        ("a: Mapping[str, int] = {}\n", "int"),
        ("Alias = tuple[int, ...] | None\n", "|"),
        ("a = cast(int, b)\n", "int"),
        ("if TYPE_CHECKING:\n    a = 1\n", "1"),
        ("__all__ = ['a']\n", "'a'"),
        ("@dataclass(frozen=True, slots=True)\nclass A: ...\n", "True"),
        ("@lru_cache(maxsize=16)\ndef f(): ...\n", "16"),
        ("_REMEMBERED = 256\n", "256"),
        ("class A:\n    def __repr__(self):\n        return str(7)\n", "7"),
        ("a = field(repr=False, default=None)\n", "False"),
        ("raise ChainError(name[:80], code='x')\n", "80"),
        ("raise _refused(3, name)\n", "3"),
        ("return ChainError(f'{a + 1}', expected=str(2))\n", "2"),
        ("Check(id=a, expected=str(limit + 1))\n", "1"),
        ("a = f'{b:>8}{c + 1}'\n", "1"),
        ("for a, b in zip(c, d, strict=True): ...\n", "True"),
        ("procedure.record('SVN {}', ('{}', svn[7]))\n", "7"),
        ("shown = repr(got)[:80]\n", "80"),
        ("assert a > 1\n", "1"),
        ("assert_never(a)\n", "assert_never(a)"),
    ],
)
def test_what_is_no_behaviour_is_left_out(source: str, part: str) -> None:
    assert not judged(source, part)


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("if a > 1: raise E(1)\n", "a > 1"),
        ("if a:\n    raise ChainError('text')\n", "raise ChainError('text')"),
        ("raise EvidenceError('text', retryable=True)\n", "True"),
        ("a = field(default=7, repr=False)\n", "7"),
        ("MAX_BYTES = 16\n", "16"),
        ("procedure.record('SVN {}', svn)\n", "procedure.record('SVN {}', svn)"),
        ("shown = got[:80]\n", "80"),
        ("a = b | c\n", "|"),
        ("a = MASK | 4\n", "|"),
        ("class A:\n    limit: int = 32\n", "32"),
        ("def f(a=3): ...\n", "3"),
        ("name = 'é' + str(5)\n", "5"),
    ],
)
def test_behaviour_is_judged(source: str, part: str) -> None:
    assert judged(source, part)
