"""The two functions that spend the budget.

In the database, because both have to read, decide and write under one row lock, in one round
trip, by one clock. The clock is read after the lock was got: a statement's own snapshot and
`now()` are older than the wait for it.
"""

from django.db import migrations

LOCKED_BUDGET = """
CREATE FUNCTION coolify_locked_budget(p_window integer) RETURNS coolify_budget
LANGUAGE plpgsql AS $$
DECLARE
    b coolify_budget;
    -- Whole seconds: one more for the one that has just begun, one more to spare.
    size integer := p_window + 2;
    second bigint;
    passed integer;
BEGIN
    SELECT * INTO b FROM coolify_budget WHERE id = 1 FOR UPDATE;
    IF NOT FOUND THEN
        INSERT INTO coolify_budget (id, ring, ring_second, spent_by_others, pause_reason,
                times_paused, failures, open_reason, failed_probes, times_opened)
            VALUES (1, '{}', 0, 0, '', 0, 0, '', 0, 0) ON CONFLICT DO NOTHING;
        SELECT * INTO b FROM coolify_budget WHERE id = 1 FOR UPDATE;
    END IF;
    second := floor(extract(epoch FROM clock_timestamp()));
    -- A clock that was set back only keeps what was spent for longer.
    passed := least(greatest(second - b.ring_second, 0), size);
    b.ring := (array_fill(0, ARRAY[passed]) || b.ring || array_fill(0, ARRAY[size]))[1:size];
    b.ring_second := second;
    RETURN b;
END $$;
"""

COUNT = """
CREATE FUNCTION coolify_count(p_class text, p_name text, p_outcome text) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO coolify_callcount AS c (call_class, name, outcome, total)
        VALUES (p_class, p_name, p_outcome, 1)
        ON CONFLICT (call_class, name, outcome) DO UPDATE SET total = c.total + 1
$$;
"""

TAKE = """
CREATE FUNCTION coolify_take(
    p_class text, p_name text, p_allowance integer, p_window integer, p_probe_seconds float8,
    OUT verdict text, OUT wait float8, OUT spent integer, OUT failures integer,
    OUT is_probe boolean, OUT coolify_limit integer, OUT decided_at float8, OUT reason text)
LANGUAGE plpgsql AS $$
DECLARE
    b coolify_budget;
    t timestamptz;
    over integer;
    i integer;
BEGIN
    b := coolify_locked_budget(p_window);
    t := clock_timestamp();
    SELECT sum(calls) INTO spent FROM unnest(b.ring) AS calls;
    is_probe := b.open_until IS NOT NULL;
    wait := 0;
    reason := '';

    IF b.paused_until > t THEN
        verdict := 'paused';
        wait := extract(epoch FROM b.paused_until - t);
        reason := b.pause_reason;
    ELSIF is_probe AND greatest(b.open_until, b.probe_until) > t THEN
        verdict := 'circuit';
        -- A probe on its way may come back at any time.
        wait := CASE WHEN b.open_until > t THEN extract(epoch FROM b.open_until - t) ELSE 1 END;
        reason := b.open_reason;
    ELSIF spent >= p_allowance THEN
        verdict := 'limit';
        over := spent - p_allowance + 1;
        -- The oldest second whose end of life frees enough.
        i := cardinality(b.ring);
        LOOP
            over := over - b.ring[i];
            EXIT WHEN over <= 0 OR i = 1;
            i := i - 1;
        END LOOP;
        wait := b.ring_second + cardinality(b.ring) - i + 1 - extract(epoch FROM t);
    ELSE
        verdict := 'granted';
        b.ring[1] := b.ring[1] + 1;
        spent := spent + 1;
        UPDATE coolify_budget SET ring = b.ring, ring_second = b.ring_second,
                probe_until = CASE WHEN is_probe
                    THEN t + make_interval(secs => p_probe_seconds) END
            WHERE id = 1;
    END IF;

    PERFORM coolify_count(p_class, p_name,
        CASE verdict WHEN 'granted' THEN verdict ELSE 'refused:' || verdict END);
    is_probe := is_probe AND verdict = 'granted';
    failures := b.failures;
    coolify_limit := b.coolify_limit;
    decided_at := extract(epoch FROM t);
END $$;
"""

SETTLE = """
CREATE FUNCTION coolify_settle(
    p_class text, p_name text,
    p_error text, p_text text,   -- the kind of error and its words; null for a good answer
    p_alive boolean,             -- did Coolify itself answer? null: that cannot be said
    p_was_probe boolean,
    p_pause float8,              -- seconds for which Coolify wants no more calls, or null
    p_limit integer, p_remaining integer, p_coolify_limit integer, p_window integer,
    p_failures_to_open integer, p_first_pause float8, p_longest_pause float8,
    OUT circuit_event text)
LANGUAGE plpgsql AS $$
DECLARE
    b coolify_budget;
    t timestamptz;
    others integer;
BEGIN
    b := coolify_locked_budget(p_window);
    t := clock_timestamp();

    IF p_alive AND (p_was_probe OR b.open_until IS NULL) THEN
        circuit_event := CASE WHEN b.open_until IS NOT NULL THEN 'closed' END;
        b.failures := 0;
        b.failed_probes := 0;
        b.open_since := NULL;
        b.open_until := NULL;
        b.probe_until := NULL;
        b.open_reason := '';
    ELSIF p_was_probe AND b.open_until IS NOT NULL THEN
        b.failures := b.failures + 1;
        b.failed_probes := b.failed_probes + 1;
        b.open_until := t + make_interval(secs =>
            least(p_first_pause * 2 ^ least(b.failed_probes, 20), p_longest_pause));
        b.probe_until := NULL;
        b.open_reason := coalesce(p_text, b.open_reason);
        circuit_event := 'probe failed';
    ELSIF NOT p_alive THEN
        b.failures := b.failures + 1;
        IF b.open_until IS NULL AND b.failures >= p_failures_to_open THEN
            b.open_since := t;
            b.open_until := t + make_interval(secs => p_first_pause);
            b.open_reason := coalesce(p_text, '');
            b.times_opened := b.times_opened + 1;
            circuit_event := 'opened';
        END IF;
    END IF;

    IF p_pause IS NOT NULL THEN
        b.paused_until := greatest(b.paused_until, t + make_interval(secs => p_pause));
        b.pause_reason := coalesce(p_text, '');
        b.times_paused := b.times_paused + 1;
    END IF;

    -- Less is left at Coolify than we know of: somebody else spends from the same budget.
    SELECT p_limit - sum(calls) - p_remaining INTO others FROM unnest(b.ring) AS calls;
    IF others > 0 THEN
        b.ring[1] := b.ring[1] + others;
        b.spent_by_others := b.spent_by_others + others;
    END IF;
    b.coolify_limit := coalesce(p_coolify_limit, b.coolify_limit);

    UPDATE coolify_budget SET
            ring = b.ring, ring_second = b.ring_second, coolify_limit = b.coolify_limit,
            spent_by_others = b.spent_by_others, paused_until = b.paused_until,
            pause_reason = b.pause_reason, times_paused = b.times_paused,
            failures = b.failures, open_since = b.open_since, open_until = b.open_until,
            open_reason = b.open_reason, failed_probes = b.failed_probes,
            probe_until = b.probe_until, times_opened = b.times_opened
        WHERE id = 1;
    IF p_error IS NOT NULL THEN
        PERFORM coolify_count(p_class, p_name, p_error);
    END IF;
END $$;
"""

DROP = """
DROP FUNCTION coolify_settle;
DROP FUNCTION coolify_take;
DROP FUNCTION coolify_count;
DROP FUNCTION coolify_locked_budget;
"""


class Migration(migrations.Migration):
    dependencies = [("coolify", "0001_initial")]

    operations = [migrations.RunSQL(LOCKED_BUDGET + COUNT + TAKE + SETTLE, DROP)]
