"""The service: locked until its keys are released to it, and again as soon as one of their leases is lost.

::

    settings.py, config.py      what it is told: one TOML file, closed
    keyring.py, lifecycle.py    keys of two owners; locked, unlocking, ready, stopped
    bench.py, wiring.py         the parts that it works with while it is ready
    channel.py, offers.py       the encrypted channel, and the evidence for its keys
    app.py                      the API behind the channel: ingest.py takes documents in, asking.py answers
    doors.py                    the outermost application: what is told in the clear
    assembly.py, running.py     all of it put together, and served
"""
