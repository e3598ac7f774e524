"""The page that verifies a machine in the browser, as files to serve; ``make page`` builds them from ``page/``.

::

    /            the page            /page.json   the verified service, and the operator of the page
    /page.js …   its parts, each named in the page with its digest
    /evidence.html   the page that checks files without a service; connects to nothing
"""

from attest.page.files import PageFile, evidence_page_files, origin_of, page_digest, page_files

__all__ = ["PageFile", "evidence_page_files", "origin_of", "page_digest", "page_files"]
