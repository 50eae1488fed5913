from django.db import migrations

# Each change of a slot's status, however it is made, writes its line of history and wakes a worker.
# Nothing is written for a slot that is inserted without a reason, as tests do.
SQL = """
CREATE FUNCTION slots_slot_write_history() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    bot bigint := NEW.assigned_bot_id;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        bot := coalesce(OLD.assigned_bot_id, NEW.assigned_bot_id);
    END IF;
    INSERT INTO slots_slottransition (
        slot_id, slot_name, at, from_status, to_status, lasted, reason,
        bot_id, epoch, coolify_uuid, actor, correlation_id
    ) VALUES (
        NEW.id, NEW.name, NEW.status_since, NEW.previous_status, NEW.status,
        NEW.previous_lasted, NEW.status_reason,
        bot, NEW.epoch, NEW.coolify_uuid, NEW.status_actor, NEW.correlation_id
    );
    PERFORM pg_notify('botpool_wake', 'slot:' || NEW.id);
    RETURN NULL;
END $$;
CREATE TRIGGER slots_slot_made AFTER INSERT ON slots_slot
    FOR EACH ROW WHEN (NEW.status_reason <> '') EXECUTE FUNCTION slots_slot_write_history();
CREATE TRIGGER slots_slot_moved AFTER UPDATE ON slots_slot
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION slots_slot_write_history();
"""

REVERSE = """
DROP TRIGGER slots_slot_moved ON slots_slot;
DROP TRIGGER slots_slot_made ON slots_slot;
DROP FUNCTION slots_slot_write_history();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("slots", "0012_jobs_observations_and_causes"),
        ("bots", "0006_history_by_trigger"),
    ]

    operations = [migrations.RunSQL(sql=SQL, reverse_sql=REVERSE)]
