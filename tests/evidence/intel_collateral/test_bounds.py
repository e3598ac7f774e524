"""What is remembered of documents that anybody may present stays small: by their size, and by their number."""

from attest.endorsements import intel as documents
from attest.evidence.intel import collateral, qe_identity, tcb_info

MOST_BYTES_REMEMBERED = 16 * 1024 * 1024


def test_no_table_of_documents_can_hold_more_than_sixteen_mebibytes_of_them() -> None:
    tables = [
        table
        for module in (documents, collateral, qe_identity, tcb_info)
        for table in vars(module).values()
        if hasattr(table, "cache_parameters")
    ]
    assert len(tables) >= 4
    for table in tables:
        assert table.cache_parameters()["maxsize"] * documents.MAX_DOCUMENT_BYTES <= MOST_BYTES_REMEMBERED, table
