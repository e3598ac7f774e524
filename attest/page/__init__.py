"""The page that checks a machine in the browser, as files to serve; they are built from ``page/`` by ``make page``.

::

    /            the page            /page.json   which service it checks, and who serves it
    /page.js …   its parts, each named in the page with its digest
"""

from attest.page.files import PageFile, origin_of, page_digest, page_files

__all__ = ["PageFile", "origin_of", "page_digest", "page_files"]
