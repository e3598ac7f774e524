"""The service inside the TEE: locked until it has proved itself, then documents in, grounded passages out.

::

    interfaces.py   the types and protocols between the parts
    errors.py       the errors, by who must act
    languages/      the language of a text, and its words
    documents/      bytes of a file → pages of text, in a confined child process; pages → passages
    embedding/      passages → vectors, by a sealed model that is opened in memory alone
    store/          passages and vectors, one collection for each user, encrypted on disk
    answers/        a question → the passages that answer it, or "I don't know"
    service/        locked, ready, stopped; the routes behind the encrypted channel
"""
