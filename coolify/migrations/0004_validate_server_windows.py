from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("coolify", "0003_servers")]

    operations = [ValidateConstraint("server", "server_window_begins_before_it_ends")]
