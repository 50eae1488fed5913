from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('slots', '0022_meeting_too_long'),
    ]

    operations = [
        migrations.AddField(
            model_name='deployment',
            name='ended_from',
            field=models.CharField(blank=True, db_default='', help_text='Its last status before the end.', max_length=20),
        ),
        migrations.AddField(
            model_name='lease',
            name='refused_since',
            field=models.DateTimeField(help_text='Since when other processes have tried in vain to acquire it.', null=True),
        ),
        migrations.CreateModel(
            name='LeaseWait',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=150)),
                ('bound', models.FloatField()),
                ('total', models.BigIntegerField(default=0)),
                ('seconds', models.FloatField(default=0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('kind', 'bound'), name='one_row_per_kind_and_bound')],
            },
        ),
    ]
