from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("botpool", "0002_operators_samples_and_logins")]

    operations = [
        migrations.CreateModel(
            name="Tally",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=100)),
                ("labels", models.JSONField(default=dict)),
                ("total", models.FloatField(default=0)),
            ],
            options={
                "verbose_name_plural": "tallies",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("name", "labels"), name="one_tally_per_name_and_labels"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="TallyMark",
            fields=[
                (
                    "source",
                    models.CharField(max_length=40, primary_key=True, serialize=False),
                ),
                ("counted_until", models.DateTimeField(null=True)),
            ],
        ),
    ]
