from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("slots", "0007_slots_beyond_the_size"),
    ]

    operations = [
        ValidateConstraint(model_name="slot", name="slot_beyond_the_size_is_cordoned"),
    ]
