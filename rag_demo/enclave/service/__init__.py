"""The service: locked until its keys are released to it, and again as soon as one of their leases is lost.

::

    settings.py, config.py          its settings: one TOML file, closed
    held_keys.py, lifecycle.py      keys of two owners; locked, unlocking, ready, stopped
    resources.py, composition.py    its parts while it is ready
    channel.py, attestation.py      the encrypted channel, and the evidence for its keys
    app.py                          the API behind the channel: ingest.py takes documents in, question.py answers
    outer_app.py                    the outermost application: the routes in the clear
    assembly.py, process.py         all of it put together, and served
"""
