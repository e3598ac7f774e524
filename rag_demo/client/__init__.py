"""Clients of the service: a Python library (``RagClient``), and a chat in the terminal (``python -m rag_demo.client``).

Neither sends content before the machine has met its user's policy.
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
