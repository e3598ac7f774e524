"""Nobody but the service's user and root may write what the service believes, nor put another file in its place."""

import os
from pathlib import Path
from typing import Any

import pytest

from attest.errors import ConfigurationError
from kms.config.file_ownership import believed_files, require_guarded
from tests.kms.oidc import OidcIssuer
from tests.kms.support import settings_for
from tests.kms.test_cli import Shell, shell

__all__ = ["shell"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "svc"
    made.mkdir(mode=0o700)
    return made


def named(folder: Path) -> dict[str, Any]:
    """Settings that name a file of every kind."""
    (folder / "anchors.toml").write_text('schema = "attest.anchors/1"\n')
    (folder / "verifier.jwks").write_text("{}")
    (folder / "verifiers.toml").write_text('[[verifier]]\nissuer = "https://v.test"\nkeys = "verifier.jwks"\n')
    (folder / "witnesses").write_text("")
    (folder / "bundle.pem").write_text("")
    (folder / "client-ca.crt").write_text("")
    (folder / "issuers.toml").write_text(OidcIssuer().table(folder))
    callers = OidcIssuer(audience="https://kms.test/release", seed="callers")
    (folder / "callers.toml").write_text(callers.table(folder))
    return {
        "admin_port": 0,
        "admin_certificate_file": folder / "admin.crt",
        "admin_key_file": folder / "admin.key",
        "anchors_file": folder / "anchors.toml",
        "verifiers_file": folder / "verifiers.toml",
        "witnesses_file": folder / "witnesses",
        "bundle_keys": (folder / "bundle.pem",),
        "admin_client_ca_file": folder / "client-ca.crt",
        "admin_issuers_file": folder / "issuers.toml",
        "callers": "identified",
        "callers_issuers_file": folder / "callers.toml",
    }


def refused(folder: Path, config: Path | None = None, **changes: Any) -> tuple[str, str]:  # noqa: ANN401  settings
    with pytest.raises(ConfigurationError) as caught:
        require_guarded(settings_for(folder, **changes), config)
    return caught.value.code, str(caught.value.field)


def test_every_file_that_is_believed_is_looked_at(folder: Path) -> None:
    names = named(folder)
    settings, config = settings_for(folder, **names), folder / "kms.toml"
    config.touch(mode=0o600)
    files = list(believed_files(settings, config))
    assert {path.name for _, path in files} == {
        *("kms.toml", "anchors.toml", "verifiers.toml", "verifier.jwks", "witnesses", "bundle.pem", "client-ca.crt"),
        *("issuers.toml", "login.jwks", "callers.toml", "callers.jwks"),
    }
    assert require_guarded(settings, config) == len(files)
    for name, path in files:
        path.chmod(0o620)
        assert refused(folder, config, **names) == ("file-writable-by-others", name)
        path.chmod(0o600)


@pytest.mark.parametrize(("mode", "holds"), [(0o755, True), (0o775, False), (0o757, False), (0o1777, True)])
def test_the_folder_counts_as_well_unless_only_owners_take_files_away(folder: Path, mode: int, *, holds: bool) -> None:
    config = folder / "kms.toml"
    config.touch(mode=0o600)
    folder.chmod(mode)
    if holds:
        require_guarded(settings_for(folder), config)
    else:
        assert refused(folder, config) == ("file-writable-by-others", "config")


def test_a_link_counts_as_what_it_leads_to(folder: Path, tmp_path: Path) -> None:
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    (open_to_all / "real.toml").touch(mode=0o600)
    config = folder / "kms.toml"
    config.symlink_to(open_to_all / "real.toml")
    require_guarded(settings_for(folder), config)
    open_to_all.chmod(0o777)
    assert refused(folder, config)[0] == "file-writable-by-others"
    open_to_all.chmod(0o755)
    (open_to_all / "real.toml").chmod(0o602)
    assert refused(folder, config)[0] == "file-writable-by-others"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_file_of_another_user_is_refused(folder: Path) -> None:
    config = folder / "kms.toml"
    config.touch(mode=0o600)
    os.chown(config, 65534, 65534)
    assert refused(folder, config) == ("file-writable-by-others", "config")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize("mode", [0o755, 0o1755, 0o1777])
def test_the_folder_of_another_user_is_refused_who_may_take_any_file_away(folder: Path, mode: int) -> None:
    config = folder / "kms.toml"
    config.touch(mode=0o600)
    os.chown(folder, 65534, 65534)
    folder.chmod(mode)
    assert refused(folder, config) == ("file-writable-by-others", "config")


def test_a_service_does_not_start_on_settings_that_others_may_write(shell: Shell) -> None:
    shell.init()
    config = shell.folder / "svc" / "kms.toml"
    config.chmod(0o646)
    _, err = shell.with_config("serve", "--port", "0", code=2)
    assert "[file-writable-by-others]" in err
    assert f"hint: chmod go-w {config}" in err
    _, err = shell.with_config("config", "check", code=1)
    assert "settings-file" in err
