from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import RemoveIndexConcurrently
from django.contrib.postgres.search import SearchVectorField
from django.db import migrations, transaction
from django.db.models import CharField, F, Func, Value

from bots.meetings import masked_address
from bots.search import Joined, ShownAddress
from core.migration_operations import AddFieldOnce, AddIndexConcurrently

BATCH = 500


def fill(apps, schema_editor):
    bots = apps.get_model("bots", "Bot").objects
    last = 0
    while last is not None:
        last = _fill_some(bots, after=last)


def _fill_some(bots, *, after):
    """In a transaction of its own, so that no bot has to wait long; returns the last bot."""
    with transaction.atomic():
        some = bots.filter(pk__gt=after, shown_address="").order_by("pk").only("meeting_url")
        rows = list(some.select_for_update(no_key=True)[:BATCH])
        for bot in rows:
            bot.shown_address = masked_address(bot.meeting_url)
        bots.bulk_update(rows, ["shown_address"])
    return rows[-1].pk if rows else None


TEXT = Joined(
    Joined(
        Joined(Joined(F("shown_address"), Value(" ")), F("display_name")),
        Value(" "),
    ),
    F("slot_name"),
)
WORDS = Func(
    TEXT,
    Value("[^[:alnum:]]+"),
    Value(" "),
    Value("g"),
    function="regexp_replace",
    output_field=CharField(),
)
DOCUMENT = Func(
    WORDS,
    template="to_tsvector('simple', %(expressions)s)",
    output_field=SearchVectorField(),
)


class Migration(migrations.Migration):
    atomic = False  # for an index without a lock on the table, and short transactions

    dependencies = [("bots", "0015_indexes_that_others_contain")]

    operations = [
        AddFieldOnce("bot", "shown_address", ShownAddress(db_default="", editable=False)),
        migrations.RunPython(fill, migrations.RunPython.noop),
        AddIndexConcurrently("bot", GinIndex(DOCUMENT, name="bot_by_shown_words")),
        RemoveIndexConcurrently("bot", "bot_by_words"),
    ]
