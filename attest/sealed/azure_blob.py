"""Sealed files in Azure Blob Storage, read over HTTP as from any web server.

Microsoft's libraries, from the extra ``azure``, find the credentials and sign: a connection string, an account key or a
shared access signature from the variables of the Azure command line, and otherwise Entra ID. A key signs for reading
this container during an hour, anew for each request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from attest.clock import system_clock
from attest.errors import ConfigurationError
from attest.sealed.cloud_places import HttpPlace, extra_missing, joined, setting
from attest.sealed.http_connections import HttpAccess, bad_url, shown
from attest.sealed.ranges import Interruption, unreachable

_SCOPE: Final = "https://storage.azure.com/.default"
_VERSION: Final = {"x-ms-version": "2021-12-02"}
_SIGNED_FOR: Final = timedelta(hours=1)
_CONTAINER: Final = r"(?P<container>\$root|\$web|[a-z0-9](?:-?[a-z0-9]){2,62})"
_PATH: Final = r"(?:/(?P<path>[^\x00-\x1f\x7f]{0,1024}))?"
_AZ: Final = re.compile(f"az://{_CONTAINER}{_PATH}")
_ABFS: Final = re.compile(rf"abfss?://{_CONTAINER}@(?P<account>[a-z0-9]{{3,24}})\.dfs\.(?P<suffix>[a-z0-9.-]+){_PATH}")
_EXPECTED: Final = "az://CONTAINER/PATH or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Account:
    """A storage account: its endpoint, and at most one of key and signature."""

    name: str
    endpoint: str
    key: str | None = None
    signature: str | None = None


def azure_place(url: str, *, endpoint_url: str | None = None) -> HttpPlace:
    """Return the place of a blob or of a folder of blobs; nothing is sent.

    Raises:
        ConfigurationError: ``sealed-url-invalid``, ``azure-unavailable`` or ``azure-settings-invalid``.
    """
    match = _AZ.fullmatch(url) or _ABFS.fullmatch(url)
    if match is None:
        raise bad_url(shown(url), _EXPECTED)
    parts = match.groupdict()
    try:
        account = _account(parts.get("account"), parts.get("suffix"), endpoint_url)
        access = _access(account, parts["container"])
    except ImportError as exc:
        raise extra_missing("Azure Blob Storage", extra="azure", code="azure-unavailable") from exc
    return HttpPlace(joined(account.endpoint, parts["container"], parts["path"] or ""), access)


def _account(named: str | None, suffix: str | None, endpoint_url: str | None) -> _Account:
    stated = _connection_string()
    if named is not None and stated.get("accountname") != named:
        stated = {}
    name = named or stated.get("accountname") or setting("AZURE_STORAGE_ACCOUNT")
    protocol = stated.get("defaultendpointsprotocol", "https")
    suffix = suffix or stated.get("endpointsuffix", "core.windows.net")
    endpoint = endpoint_url or stated.get("blobendpoint") or (name and f"{protocol}://{name}.blob.{suffix}")
    if not endpoint:
        raise _settings_invalid("the storage account is not named")
    if stated:
        key, signature = stated.get("accountkey"), stated.get("sharedaccesssignature")
    else:
        key, signature = setting("AZURE_STORAGE_KEY"), setting("AZURE_STORAGE_SAS_TOKEN")
    return _Account(name=name or "", endpoint=endpoint, key=key, signature=signature)


def _connection_string() -> Mapping[str, str]:
    text = setting("AZURE_STORAGE_CONNECTION_STRING")
    if text is None:
        return {}
    from azure.core.utils import parse_connection_string

    try:
        return parse_connection_string(text)
    except ValueError:  # its text may show a part
        raise _settings_invalid("AZURE_STORAGE_CONNECTION_STRING is not a connection string") from None


def _access(account: _Account, container: str) -> HttpAccess:
    versions, hint = (("ETag", "If-Match"),), "check that the credentials are valid and may read the container's blobs"
    if account.signature is not None:
        signature = account.signature.removeprefix("?")
        if not re.fullmatch(r"[\x21-\x7e]+", signature) or "#" in signature:
            raise _settings_invalid("the shared access signature is not one")
        return HttpAccess(headers=lambda: _VERSION, query=lambda: signature, versions=versions, hint=hint)
    if account.key is not None:
        sign = _Signer(account, container, account.key)
        return HttpAccess(headers=lambda: _VERSION, query=sign, versions=versions, hint=hint)
    return HttpAccess(headers=_Tokens(account.endpoint), versions=versions, hint=hint)


class _Signer:
    """Signatures for reading one container."""

    def __init__(self, account: _Account, container: str, key: str) -> None:
        self._account, self._container, self._key = account, container, key
        self()

    def __call__(self) -> str:
        from azure.storage.blob import ContainerSasPermissions, generate_container_sas

        try:
            signature = generate_container_sas(
                self._account.name,
                self._container,
                account_key=self._key,
                permission=ContainerSasPermissions(read=True),
                expiry=system_clock() + _SIGNED_FOR,
            )
        except ValueError:  # its text may show the key
            raise _settings_invalid("the account key is not one") from None
        return str(signature)


class _Tokens:
    """Headers with a token of Entra ID, which the library keeps and renews."""

    def __init__(self, endpoint: str) -> None:
        from azure.identity import DefaultAzureCredential

        self._name = shown(endpoint)
        self._credential = DefaultAzureCredential()

    def __call__(self) -> Mapping[str, str]:
        from azure.core.exceptions import AzureError, ClientAuthenticationError

        try:
            token = self._credential.get_token(_SCOPE).token
        except ClientAuthenticationError as exc:
            raise _settings_invalid("no credentials are found, or they have expired") from exc
        except AzureError as exc:
            raise Interruption(unreachable(self._name, "Entra ID does not answer")) from exc
        return {**_VERSION, "Authorization": f"Bearer {token}"}


def _settings_invalid(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"Azure Blob Storage cannot be used: {problem}",
        code="azure-settings-invalid",
        hint="set AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or use 'az login' or a "
        "managed identity; read public blobs by their https address",
    )
