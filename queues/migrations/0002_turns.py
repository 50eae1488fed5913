from django.db import migrations, models
from django.db.models import DateTimeField, DurationField, F
from django.db.models.expressions import CombinedExpression

import queues.models


class Migration(migrations.Migration):
    dependencies = [("queues", "0001_initial")]

    operations = [
        migrations.RemoveIndex(model_name="queueentry", name="queue_order"),
        migrations.AddField(
            model_name="queueentry",
            name="ageing",
            field=models.DurationField(default=queues.models.ageing),
        ),
        migrations.AddField(
            model_name="queueentry",
            name="turn",
            field=models.GeneratedField(
                db_persist=True,
                expression=queues.models.InUtc(
                    CombinedExpression(
                        queues.models.InUtc(F("queued_at")),
                        "+",
                        CombinedExpression(
                            F("priority"), "*", F("ageing"), output_field=DurationField()
                        ),
                        output_field=DateTimeField(),
                    )
                ),
                output_field=DateTimeField(),
            ),
        ),
        migrations.AddIndex(
            model_name="queueentry",
            index=models.Index(fields=["platform", "turn", "id"], name="queue_order"),
        ),
    ]
