"""Files that come with this version: the documentation, and policies to copy.

In the repository both folders are links to those at its top; a wheel holds the files themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.shipped.documentation import documentation_files, pages
    from attest.shipped.templates import PolicyTemplate, policy_templates

__all__ = ["PolicyTemplate", "documentation_files", "pages", "policy_templates"]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.shipped.documentation": ("documentation_files", "pages"),
        "attest.shipped.templates": ("PolicyTemplate", "policy_templates"),
    },
)
