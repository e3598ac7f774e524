"""Two owners, one machine: the confidential RAG sample with all its parties on one computer, each with its own folder.

::

    document.py         the document, and the questions about it
    owner.py            an owner's side, as a process of its own: a key-release service, a policy, keys
    programs.py         processes that end with the demonstration, however it ends
    bound_process.py    the program that ends them with their parent
    recording_relay.py  the operator's view of the network: every byte, recorded
    parties.py          the three parties, put together
    secret_forms.py     a secret in all forms in which it might be found
    search.py           the search for them in everything that a party can see
    refusals.py         requests that get no key, a step of the story
    cli.py        ``python -m rag_demo``, which ``make demo`` runs
"""
