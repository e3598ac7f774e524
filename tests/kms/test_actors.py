"""Who the log says that somebody was, where the machine alone knows."""

import os
import pwd

import pytest

from kms.domain.actors import local_actor


@pytest.mark.parametrize("variable", ["LOGNAME", "USER", "LNAME", "USERNAME"])
def test_nobody_is_named_in_the_log_by_what_their_environment_says(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "somebody-else")
    assert local_actor().name == pwd.getpwuid(os.getuid()).pw_name


def test_a_user_without_a_name_is_known_by_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert local_actor().name == f"uid {os.getuid()}"
