from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import migrations
from django.db.models import CharField, F, Func, Value

from bots.search import Joined
from core.migration_operations import AddIndexConcurrently

TEXT = Joined(
    Joined(
        Joined(Joined(F("meeting_url"), Value(" ")), F("display_name")),
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
    atomic = False  # for an index without a lock on the table

    dependencies = [("bots", "0013_bots_of_clients")]

    operations = [AddIndexConcurrently("bot", GinIndex(DOCUMENT, name="bot_by_words"))]
