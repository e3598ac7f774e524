"""Every table is authenticated, or is told here why it need not be."""

from kms.store.schema import metadata
from kms.store.state_rows import authenticated_tables

NOT_ENTRIES = {
    "key_tags": "no decision depends on them",
    "lease_claims": "addressed by their digest, which a lease names",
    "live_leases": "the leases that it leads to are, and the sum of the live ones shows what it leaves out",
    "log_entries": "leaves of the log's tree, whose root stands beside that of the state",
    "log_nodes": "nodes of that tree",
    "policies": "addressed by their digest, which a key names",
    "state_nodes": "nodes of the state",
    "state_root": "its root, with a code",
}


def test_every_table_is_authenticated_or_need_not_be() -> None:
    tables = {table.name for table in metadata.sorted_tables}
    assert {table.name for table in authenticated_tables()} == tables - NOT_ENTRIES.keys()
