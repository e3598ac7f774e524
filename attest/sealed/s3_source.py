"""Sealed files in S3 object storage: ranges of one object, pinned to the version at opening.

Requests, credentials and signatures are boto3's, from the extra ``s3``. Its retries are off: interrupted answers are
resumed here, as for HTTP. Every request has ``If-Match`` with the ETag of the first answer, and the version in
versioned buckets: an overwritten object is refused as changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from attest.errors import AttestError, ConfigurationError, SealedSourceError
from attest.sealed.http_connections import answer_invalid, changed, not_found, refused
from attest.sealed.ranges import Interruption, Receive, RetryPolicy, receive_from, unreachable
from attest.sealed.remote_source import RemoteSource, RemoteStore

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

BLOCK_BYTES: Final = 256 << 10
MAX_KEY_BYTES: Final = 1024
"""The service's own limit."""

_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
_GONE: Final = frozenset({"404", "NoSuchBucket", "NoSuchKey", "NoSuchVersion", "NotFound"})


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """Location of an object, or of a prefix of objects, which may be empty."""

    bucket: str
    key: str

    @staticmethod
    def parse(url: str) -> S3Address:
        """Parse ``s3://bucket/key``.

        Raises:
            ConfigurationError: ``sealed-url-invalid``.
        """
        scheme, separator, rest = url.partition("://")
        bucket, _, key = rest.partition("/")
        printable = key.isprintable() and len(key.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES
        if scheme != "s3" or not separator or not _BUCKET.fullmatch(bucket) or not printable:
            raise ConfigurationError(
                f"{url[:200]!r} is not an address of an object: expected s3://bucket/key",
                code="sealed-url-invalid",
                expected="s3://bucket/key",
            )
        return S3Address(bucket=bucket, key=key)

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}" if self.key else f"s3://{self.bucket}"


def s3_client(*, patience: RetryPolicy, endpoint_url: str | None = None) -> Any:  # noqa: ANN401
    """Return a boto3 client for these sources, with boto3's own region and credentials.

    ``endpoint_url`` is that of a service other than Amazon's, such as ``https://minio.example``.

    Raises:
        ConfigurationError: ``s3-unavailable``: boto3 is not installed; ``s3-settings-invalid``.
    """
    try:
        from boto3.session import Session
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError as exc:
        raise ConfigurationError(
            "object storage needs boto3", code="s3-unavailable", hint="pip install 'attest-kms[s3]'"
        ) from exc
    settings = Config(
        connect_timeout=patience.connect_seconds,
        read_timeout=patience.read_seconds,
        max_pool_connections=patience.connections,
        retries={"total_max_attempts": 1},
        signature_version="s3v4",
        user_agent_extra="attest",
    )
    try:
        # A separate session: the process-wide one caches credentials indefinitely.
        return Session().client("s3", endpoint_url=endpoint_url, config=settings)
    except (BotoCoreError, ValueError) as exc:
        raise _settings_invalid(exc) from exc


class S3Source(RemoteSource):
    """One object, read by ranges; thread-safe.

    Args:
        url: ``s3://bucket/key``.
        client: from ``s3_client``, closed by its owner. None creates one.
        endpoint_url: as ``s3_client``, without a client.

    Raises:
        ConfigurationError: ``sealed-url-invalid``, ``s3-unavailable`` or ``s3-settings-invalid``.
        SealedSourceError: ``sealed-source-…``: unreachable, not-found, refused, answer-invalid, unpinned.
    """

    def __init__(
        self,
        url: str,
        *,
        client: Any = None,  # noqa: ANN401  boto3 has no types
        endpoint_url: str | None = None,
        patience: RetryPolicy | None = None,
    ) -> None:
        self._address = S3Address.parse(url)
        if not self._address.key:
            raise ConfigurationError(
                f"{url} does not name an object", code="sealed-url-invalid", expected="s3://bucket/key"
            )
        patience = patience or RetryPolicy()
        self._client = s3_client(patience=patience, endpoint_url=endpoint_url) if client is None else client
        super().__init__(str(self._address), patience=patience, owned=self._client if client is None else None)

    @contextmanager
    def _ask_first(self, start: int, stop: int) -> Iterator[Receive]:
        del start, stop  # the head of the object has no range
        with self._translated():
            head = self._client.head_object(Bucket=self._address.bucket, Key=self._address.key)
        self._pin(head)
        yield receive_from(iter((b"\0",)))

    def _pin(self, head: Mapping[str, Any]) -> None:  # Any: boto3's answers
        size, etag, version = head.get("ContentLength"), head.get("ETag"), head.get("VersionId")
        if not isinstance(size, int) or size < 0:
            raise answer_invalid(self.name, "the size of the object", repr(size))
        if not isinstance(etag, str) or not etag.strip('"'):
            raise SealedSourceError(
                f"{self.name} comes without an ETag, so that a change could not be noticed",
                code="sealed-source-unpinned",
                expected="ETag",
            )
        self.size, self._etag = size, etag
        self._version = {"VersionId": version} if isinstance(version, str) and version != "null" else {}

    @contextmanager
    def _ask(self, start: int, stop: int) -> Iterator[Receive]:
        with self._translated():
            answer = self._client.get_object(
                Bucket=self._address.bucket,
                Key=self._address.key,
                Range=f"bytes={start}-{stop - 1}",
                IfMatch=self._etag,
                **self._version,
            )
            body = answer["Body"]
            try:
                self._require_range(answer, start, stop)
                yield receive_from(body.iter_chunks(BLOCK_BYTES))
            finally:
                with suppress(OSError):
                    body.close()

    def _require_range(self, answer: Mapping[str, Any], start: int, stop: int) -> None:
        if answer.get("ETag") != self._etag:
            raise changed(self.name)
        expected = f"bytes {start}-{stop - 1}/{self.size}"
        stated = answer.get("ContentRange")
        if stated != expected:
            raise answer_invalid(self.name, f"Content-Range: {expected}", repr(stated)[:80])
        if answer.get("ContentLength") != stop - start:
            raise answer_invalid(self.name, f"{stop - start} bytes", repr(answer.get("ContentLength"))[:20])

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate boto3's errors."""
        from botocore import exceptions as boto

        try:
            yield
        except boto.ClientError as exc:
            raise self._refusal(exc) from exc
        except (boto.NoCredentialsError, boto.PartialCredentialsError, boto.NoRegionError) as exc:
            raise _settings_invalid(exc) from exc
        except (boto.ParamValidationError, boto.CredentialRetrievalError) as exc:
            raise _settings_invalid(exc) from exc
        except (boto.BotoCoreError, OSError) as exc:  # connections, time limits, truncated streams
            raise Interruption(unreachable(self.name, _one_line(exc))) from exc

    def _refusal(self, exc: ClientError) -> AttestError | Interruption:
        code = str(exc.response.get("Error", {}).get("Code", ""))
        status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        words = f"status {status}" + (f", {code}" if code and code != str(status) else "")
        if status in _AGAIN or code in {"SlowDown", "RequestTimeout"}:
            return Interruption(unreachable(self.name, words))
        if status == 404 or code in _GONE:
            return not_found(self.name, words, hint="check bucket, key and endpoint")
        if status in {401, 403}:
            hint = "check the credentials that boto3 finds, and that they may read the object"
            return refused(self.name, words, hint=hint)
        if status in {412, 416}:
            return changed(self.name)
        return answer_invalid(self.name, "status 206", words)


class S3Store(RemoteStore):
    """A sealed directory below ``s3://bucket`` or ``s3://bucket/prefix``.

    The other arguments are those of ``S3Source``; all its files share the client. No request is sent yet, but a new
    client may look for credentials.

    Raises:
        ConfigurationError: ``sealed-url-invalid``, ``s3-unavailable`` or ``s3-settings-invalid``.
    """

    def __init__(
        self,
        url: str,
        *,
        client: Any = None,  # noqa: ANN401  boto3 has no types
        endpoint_url: str | None = None,
        patience: RetryPolicy | None = None,
    ) -> None:
        self._address = S3Address.parse(url.rstrip("/") if url.count("/") > 2 else url)
        self._patience = patience or RetryPolicy()
        self._client = s3_client(patience=self._patience, endpoint_url=endpoint_url) if client is None else client
        owned = self._client if client is None else None
        super().__init__(str(self._address), patience=self._patience, owned=owned)

    def open(self, name: str) -> S3Source:
        """Open a file of the directory; errors as ``S3Source``."""
        prefix = f"{self._address.key}/" if self._address.key else ""
        url = f"s3://{self._address.bucket}/{prefix}{name}"
        return S3Source(url, client=self._client, patience=self._patience)


def _one_line(exc: BaseException) -> str:
    return " ".join(str(exc).split())[:300] or type(exc).__name__


def _settings_invalid(exc: BaseException) -> ConfigurationError:
    return ConfigurationError(
        f"object storage cannot be used: {_one_line(exc)}",
        code="s3-settings-invalid",
        hint="give region, endpoint and credentials where boto3 looks for them: AWS_REGION, ~/.aws, the machine's role",
    )
