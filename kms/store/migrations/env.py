"""Runs the migrations on the connection that the caller holds, in the caller's transaction."""

from alembic import context

from kms.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True)
context.run_migrations()
