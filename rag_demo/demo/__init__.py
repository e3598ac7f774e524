"""Two owners, one machine: the confidential RAG sample with all its parties on one computer, each with its own folder.

::

    document.py   what is uploaded, and what is asked
    owner.py      an owner's side, as a process of its own: a key-release service, a policy, keys
    programs.py   processes that end with the demonstration, however it ends
    tap.py        what the operator sees of the network: every byte, recorded
    stage.py      the three parties, put together
    needles.py    a secret in all the forms in which it might lie about
    search.py     looks for them in whatever anybody can see
    refusals.py   requests that get no key, a step of the story
    story.py      ``--script``: what holds, shown step by step
    cli.py        ``python -m rag_demo``, which ``make demo`` runs
"""
