"""The listening socket of a service."""

import socket

import pytest

from attest.errors import ConfigurationError
from attest.listening_socket import AddressFields, listen
from attest.paced_listener import PacedListener
from attest.rate_limits import Rate, RateTable

pytestmark = pytest.mark.loopback

FIELDS = AddressFields("host", "port", "name another host", "name another port")


@pytest.mark.parametrize("paced", [False, True])
def test_accepted_connections_send_the_body_of_an_answer_without_waiting_for_an_acknowledgement(*, paced: bool) -> None:
    listener = listen("127.0.0.1", 0, backlog=1, fields=FIELDS)
    if paced:
        listener = PacedListener(listener, rates=RateTable(Rate(per_second=1, burst=9)), monotonic=lambda: 0.0)
    with listener, socket.create_connection(listener.getsockname()), listener.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_names_the_setting_of_the_port() -> None:
    with listen("127.0.0.1", 0, backlog=1, fields=FIELDS) as first, pytest.raises(ConfigurationError) as caught:
        listen("127.0.0.1", first.getsockname()[1], backlog=1, fields=FIELDS)
    assert (caught.value.code, caught.value.field, caught.value.hint) == ("address-in-use", "port", "name another port")


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "no host"])
def test_an_address_of_another_machine_names_the_setting_of_the_host(host: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        listen(host, 0, backlog=1, fields=FIELDS)
    assert (caught.value.code, caught.value.field, caught.value.hint) == (
        "address-unusable",
        "host",
        "name another host",
    )
