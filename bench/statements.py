"""The statements that the product sends, as a pgbench script."""

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection
from psycopg import ClientCursor


def recorded(step: Callable[[], object]) -> str:
    """Take a step and return its statements, one a line, those of a transaction within BEGIN and
    COMMIT."""
    sent: list[tuple[bool, str]] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        in_full = ClientCursor(connection.connection).mogrify(sql, params)
        sent.append((connection.in_atomic_block, f"{' '.join(in_full.split())};\n"))
        return result

    with connection.execute_wrapper(note):
        step()
    script = ""
    for in_transaction, statements in groupby(sent, key=itemgetter(0)):
        lines = "".join(line for _, line in statements)
        script += f"BEGIN;\n{lines}COMMIT;\n" if in_transaction else lines
    return script


def with_variables(script: str, variables: dict[str, str]) -> str:
    """Replace values by pgbench's variables; each value must be one that occurs nowhere else."""
    for value, name in variables.items():
        assert value in script, f"{value} does not occur in the recorded statements"
        script = script.replace(value, name)
    return script
