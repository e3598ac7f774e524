"""How people and programs ask the service: a Python client, and a chat in the terminal.

Neither sends a word before the machine has met its user's policy.

::

    demands.py    what a user demands: policy, roots, what vendors say
    trust.py      the machine's proof: one at a time, judged by today's policy
    exchange.py   one message and its answer, sealed both ways
    client.py     ``RagClient``: documents and questions
    watching.py   the same proof again, by the clock
    chat.py       ``python -m rag_demo.client URL --policy FILE``
"""

from rag_demo.client.answers import Answer, AnswerText, Citation, Document, Passage, Reply, ServiceState, UploadProgress
from rag_demo.client.client import RagClient, ReplyStream, Stored
from rag_demo.client.demands import Demands, read_demands
from rag_demo.client.errors import RagAnswerError, RagRefusedError, RagUnreachableError
from rag_demo.client.monitor import Watch
from rag_demo.client.token import UserToken, default_token_file, token_in
from rag_demo.client.trust import SentTo, TrustStatus
from rag_demo.client.uploads import Sent

__all__ = [
    "Answer",
    "AnswerText",
    "Citation",
    "Demands",
    "Document",
    "Passage",
    "RagAnswerError",
    "RagClient",
    "RagRefusedError",
    "RagUnreachableError",
    "Reply",
    "ReplyStream",
    "Sent",
    "SentTo",
    "ServiceState",
    "Stored",
    "TrustStatus",
    "UploadProgress",
    "UserToken",
    "Watch",
    "default_token_file",
    "read_demands",
    "token_in",
]
