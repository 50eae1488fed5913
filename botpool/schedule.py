"""The schedule: all periodic work, and how often it runs. Any worker runs it; see core.jobs."""

from core.jobs.jobs import WORKER_HEARTBEAT, Work

WORKS = (
    Work(
        name=WORKER_HEARTBEAT,
        function="core.jobs.jobs.show_that_workers_work",
        interval="WORKER_HEARTBEAT_INTERVAL",
    ),
    Work(
        name="queue sweep",
        function="pool.sweep.sweep_queue",
        interval="POLL_INTERVAL",
    ),
    Work(
        name="slots",
        function="pool.controller.advance.sweep_slots",
        interval="POLL_INTERVAL",
    ),
    Work(
        name="observe",
        function="pool.controller.observe.observe_if_due",
        interval="POLL_INTERVAL",
    ),
    Work(
        name="reconcile",
        function="pool.reconciler.reconcile.run_reconciler",
        interval="RECONCILE_INTERVAL",
    ),
    Work(
        name="logs",
        function="pool.controller.logs.keep.sweep_logs",
        interval="RECONCILE_INTERVAL",
    ),
    Work(
        name="pool sizes",
        function="pool.steering.fit_pools",
        interval="RECONCILE_INTERVAL",
    ),
    Work(
        name="servers",
        function="pool.controller.servers.look_after_servers",
        interval="SERVER_INTERVAL",
    ),
    Work(
        name="images",
        function="pool.controller.prepulls.work.look_after_images",
        interval="POLL_INTERVAL",
    ),
    Work(
        name="webhooks",
        function="api.webhooks.deliveries.deliver_webhooks",
        interval="WEBHOOK_INTERVAL",
    ),
    Work(
        name="notifications",
        function="dashboard.notifications.evaluation.run_notifications",
        interval="NOTIFY_INTERVAL",
    ),
    Work(
        name="samples",
        function="botpool.telemetry.samples.sample_pools",
        interval="SAMPLE_INTERVAL",
    ),
    Work(
        name="count history",
        function="botpool.telemetry.counters.count_history",
        interval="COUNT_INTERVAL",
    ),
    Work(
        name="prune login failures",
        function="dashboard.login.prune_login_failures",
        interval="PRUNE_INTERVAL",
    ),
    Work(
        name="prune",
        function="botpool.telemetry.retention.run_pruning",
        interval="PRUNE_INTERVAL",
    ),
)
