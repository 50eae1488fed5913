from django.db import migrations

from core.constraints import append_only


class Migration(migrations.Migration):
    dependencies = [("slots", "0001_initial")]

    operations = [
        append_only("slots_slottransition"),
        # A slot of one platform can never hold a bot of another.
        migrations.RunSQL(
            sql="""
                ALTER TABLE slots_slot
                ADD CONSTRAINT slot_holds_a_bot_of_its_own_platform
                FOREIGN KEY (assigned_bot_id, platform) REFERENCES bots_bot (id, platform)
            """,
            reverse_sql="""
                ALTER TABLE slots_slot DROP CONSTRAINT slot_holds_a_bot_of_its_own_platform
            """,
        ),
    ]
