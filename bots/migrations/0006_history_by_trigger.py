from django.db import migrations

# Each change of a bot's status, however it is made, writes its line of history. The epoch is that
# of the slot that the bot holds at this moment. Nothing is written for a bot that is inserted
# without a reason, as tests do.
SQL = """
CREATE FUNCTION bots_bot_write_history() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO bots_botevent (
        bot_id, at, from_status, to_status, reason, actor,
        correlation_id, slot_name, coolify_uuid, epoch
    ) VALUES (
        NEW.id, NEW.status_since, NEW.previous_status, NEW.status,
        NEW.status_reason, NEW.status_actor,
        NEW.correlation_id, NEW.slot_name, NEW.coolify_service_uuid,
        (SELECT epoch FROM slots_slot WHERE assigned_bot_id = NEW.id)
    );
    RETURN NULL;
END $$;
CREATE TRIGGER bots_bot_requested AFTER INSERT ON bots_bot
    FOR EACH ROW WHEN (NEW.status_reason <> '') EXECUTE FUNCTION bots_bot_write_history();
CREATE TRIGGER bots_bot_moved AFTER UPDATE ON bots_bot
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status)
    EXECUTE FUNCTION bots_bot_write_history();
"""

REVERSE = """
DROP TRIGGER bots_bot_moved ON bots_bot;
DROP TRIGGER bots_bot_requested ON bots_bot;
DROP FUNCTION bots_bot_write_history();
"""


class Migration(migrations.Migration):
    dependencies = [("bots", "0005_status_reason_and_failure_cause")]

    operations = [migrations.RunSQL(sql=SQL, reverse_sql=REVERSE)]
