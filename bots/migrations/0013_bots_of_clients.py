from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


def give_each_key_a_client(apps, schema_editor):
    keys, clients = apps.get_model("bots", "ApiKey"), apps.get_model("bots", "Client")
    for key in keys.objects.filter(client=None):
        key.client, _ = clients.objects.get_or_create(name=key.name)
        key.save(update_fields=["client"])


# The first line of a bot's history says which key requested it.
BOTS_OF_CLIENTS = """
UPDATE bots_bot SET client_id = client.id
FROM bots_botevent AS event JOIN bots_client AS client ON event.actor = 'key:' || client.name
WHERE event.bot_id = bots_bot.id AND event.from_status = '' AND bots_bot.client_id IS NULL
"""


class Migration(migrations.Migration):
    atomic = False  # for an index without a lock on the table

    dependencies = [("bots", "0012_clients")]

    operations = [
        migrations.RunPython(give_each_key_a_client, migrations.RunPython.noop),
        migrations.RunSQL(BOTS_OF_CLIENTS, migrations.RunSQL.noop),
        AddIndexConcurrently(
            "bot", models.Index(fields=["client", "-id"], name="bot_list_by_client")
        ),
    ]
