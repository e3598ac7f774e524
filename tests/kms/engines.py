"""Engines that compile a statement once for all databases of a kind.

SQLAlchemy keeps compiled statements for each engine. A service has one for its life; the tests make thousands, and
would compile the same statements for each.
"""

from collections.abc import Callable
from typing import Any

from sqlalchemy import Engine, event


class SharedStatements:
    """A maker of engines; those of one kind share their dialect, which never changes once it has seen a database."""

    def __init__(self, create: Callable[..., Engine]) -> None:
        self._create = create
        self._kept: dict[type, tuple[Any, Any]] = {}

    def __call__(self, *where: object, **options: object) -> Engine:
        engine = self._create(*where, **options)
        kind = type(engine.dialect)
        if kind in self._kept:
            engine.dialect, statements = self._kept[kind]
            vars(engine)["_compiled_cache"] = statements
            vars(engine.pool)["_dialect"] = engine.dialect
        else:
            # The engine's own listener comes before this one: by now, the dialect has asked the database what it is.
            event.listen(engine, "connect", lambda *_: self._keep(engine))
        return engine

    def _keep(self, engine: Engine) -> None:
        self._kept.setdefault(type(engine.dialect), (engine.dialect, vars(engine)["_compiled_cache"]))
