"""Two owners, one machine: the confidential RAG sample with all its parties on one computer, each with its own folder.

``parties.py`` starts them, ``story.py`` tells the story, and ``search.py`` looks for secrets in everything that a party
can see.
"""
