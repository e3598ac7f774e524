"""The service inside the TEE: locked until it has proved itself, then documents in, grounded passages out.

::

    parts.py        what the parts hand to each other
    errors.py       what can go wrong, by who must act
    documents/      bytes of a file → pages of text, in a child process that can do nothing else; pages → passages
    embedding/      passages → vectors, by a model that comes sealed and is opened in memory alone
    store/          passages and vectors, one collection for each user, encrypted wherever they lie
    answers/        a question → the passages that answer it, or "I don't know"
    service/        locked, ready, stopped; the routes behind the encrypted channel
"""
