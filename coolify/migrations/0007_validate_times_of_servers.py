from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("coolify", "0006_times_of_servers")]

    operations = [ValidateConstraint("server", "server_times_are_between_2000_and_3000")]
