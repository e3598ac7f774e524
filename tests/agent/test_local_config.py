"""The tables of the agent's rules about other programs' interfaces: closed, and off unless they are there."""

import pytest

from attest.agent.toml_tables import MAX_ENTRIES
from attest.release.names import KeyReference
from tests.agent.test_config import BASE, parsed, rejected
from tests.conftest import REPOSITORY
from tests.documentation.blocks import blocks_of

CDH = '[cdh]\nanyone_here = "one program"\n'
RESOURCES = '[cdh.resources]\n"default/model-key/llama" = "llama@2"\n'
SYSTEMD = '[systemd]\nsocket = "/run/attest/s"\n'


def test_the_interfaces_are_off_unless_they_are_named() -> None:
    config = parsed(BASE)
    assert (config.cdh, config.systemd) == (None, None)


def test_resources_are_enough_by_themselves() -> None:
    config = parsed(CDH + RESOURCES)
    assert config.cdh is not None
    assert (config.cdh.port, config.cdh.anyone_here) == (8006, "one program")
    assert config.references == (KeyReference.parse("llama@2"),)


def test_units_and_volumes_are_enough_by_themselves() -> None:
    text = SYSTEMD + '[systemd.units."a@b.service"]\ndb = "x"\nweb = "k"\n[systemd.volumes]\ndata = "x"\n'
    config = parsed(BASE + text)
    assert config.systemd is not None
    assert str(config.systemd.socket) == "/run/attest/s"
    assert config.systemd.units["a@b.service"]["db"] == config.systemd.volumes["data"] == KeyReference.parse("x")
    assert [str(one) for one in config.references] == ["k", "x"]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[cdh]\n" + RESOURCES, "cdh.anyone_here"),
        ('[cdh]\nanyone_here = " "\n' + RESOURCES, "cdh.anyone_here"),
        ("[cdh]\nanyone_here = true\n" + RESOURCES, "cdh.anyone_here"),
        ("cdh = 1\n", "cdh"),
        (CDH + "evidence = true\n" + RESOURCES, "cdh.evidence"),
        (CDH + 'evidence = ""\n' + RESOURCES, "cdh.evidence"),
        (CDH, "cdh.resources"),
        (CDH + "[cdh.resources]\n", "cdh.resources"),
        (CDH + "port = 0\n" + RESOURCES, "cdh.port"),
        (CDH + "port = 65536\n" + RESOURCES, "cdh.port"),
        (CDH + "port = true\n" + RESOURCES, "cdh.port"),
        (CDH + 'port = "8006"\n' + RESOURCES, "cdh.port"),
        (CDH + 'address = "0.0.0.0"\n' + RESOURCES, "cdh.address"),
        (CDH + '[cdh.resources]\n"default/llama" = "k"\n', "cdh.resources"),
        (CDH + '[cdh.resources]\n"default/a/b/c" = "k"\n', "cdh.resources"),
        (CDH + '[cdh.resources]\n"default//llama" = "k"\n', "cdh.resources"),
        (CDH + '[cdh.resources]\n"default/../llama" = "k"\n', "cdh.resources"),
        (CDH + '[cdh.resources]\n"./key/llama" = "k"\n', "cdh.resources"),
        (CDH + '[cdh.resources]\n"default/key/.." = "k"\n', "cdh.resources"),
        (CDH + '[cdh.resources]\n"default/key/l%61ma" = "k"\n', "cdh.resources"),
        (CDH + '[cdh.resources]\n"default/key/llama" = 1\n', "cdh.resources.default/key/llama"),
        (CDH + "[cdh.resources]\n" + "".join(f'"a/b/c{n}" = "k"\n' for n in range(MAX_ENTRIES + 1)), "cdh.resources"),
        (SYSTEMD, "systemd"),
        ('[systemd]\n[systemd.volumes]\ndata = "k"\n', "systemd.socket"),
        ('[systemd]\nsocket = "s"\n[systemd.volumes]\ndata = "k"\n', "systemd.socket"),
        (SYSTEMD + 'mode = "0666"\n[systemd.volumes]\ndata = "k"\n', "systemd.mode"),
        (SYSTEMD + '[systemd.units."a/b"]\ndb = "k"\n', "systemd.units"),
        (SYSTEMD + '[systemd.units."a.service"]\n', "systemd.units.a.service"),
        (SYSTEMD + '[systemd.units."a.service"]\n"d/b" = "k"\n', "systemd.units.a.service"),
        (SYSTEMD + "[systemd.volumes]\n", "systemd.volumes"),
        (SYSTEMD + '[systemd.volumes]\n"a/b" = "k"\n', "systemd.volumes"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(text: str, field: str) -> None:
    error = rejected(text)
    assert (error.code, error.field) == ("agent-config-invalid", field)


def test_what_is_no_name_of_a_key_is_refused() -> None:
    assert rejected(CDH + '[cdh.resources]\n"a/b/c" = "A B"\n').code == "key-id-invalid"


def test_the_examples_of_the_page_are_read() -> None:
    page = REPOSITORY / "docs/agent-local-interfaces.md"
    cdh, images, systemd = (parsed(block.text) for block in blocks_of(page) if block.language == "toml")
    assert cdh.cdh is not None
    assert cdh.cdh.resources["default/model-key/llama"] == KeyReference.parse("llama-70b")
    assert [str(one.reference) for one in images.keys] == ["acme/images@1"]
    assert systemd.systemd is not None
    assert systemd.systemd.units["app.service"]["database"] == KeyReference.parse("acme/database")
