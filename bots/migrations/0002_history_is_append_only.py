from django.db import migrations

from core.constraints import append_only


class Migration(migrations.Migration):
    dependencies = [("bots", "0001_initial")]

    operations = [append_only("bots_botevent")]
