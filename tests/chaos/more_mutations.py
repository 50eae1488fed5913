"""Mutations of what decides on evidence, keeps servers and clients apart, and resists attacks."""

from tests.chaos.mutation import one

_STOP = "tests/pool/controller/test_stop.py"
_LYING_STOPS = "tests/pool/controller/test_lying_stops.py"
_BREAKER = "tests/pool/reconciler/test_breaker.py"
_SLOW = "tests/pool/reconciler/test_slow_answers.py"
_ORDERS = "tests/pool/servers/test_orders.py"
_FAILING = "tests/pool/failures/test_failing_slots.py"
_TURNS = "tests/pool/test_turns.py"
_GONE = "pool/controller/containers/gone.py"
_ISOLATION = "tests/api/test_webhook_isolation.py"
_TRICKS = "tests/security/test_tricks.py"
_PROBLEMS = "tests/api/test_problems.py"
_TICKER = "tests/core/jobs/test_ticker.py"
_READ_ONLY = "tests/botpool/telemetry/test_read_only.py"

MORE = (
    # --- Evidence about containers -------------------------------------------------------------
    one(
        "a stop is believed only by an observation after it",
        _GONE,
        "max(slot.stop_asked_at, slot.status_has_settled_at)",
        "slot.status_has_settled_at",
        f"{_STOP}::test_a_stop_is_believed_only_by_an_observation_that_began_after_it",
    ),
    one(
        "what is unclear frees no slot",
        _GONE,
        "    if slot.server_unreachable or slot.container_status == ContainerStatus.DEPLOYING:\n",
        "    if slot.pk is None:\n",
        f"{_STOP}::test_what_is_unclear_does_not_free_a_slot",
    ),
    one(
        "no answer of Docker is no evidence",
        _GONE,
        "    return runs is False\n",
        "    return not runs\n",
        f"{_LYING_STOPS}::test_without_an_answer_of_docker_exited_has_to_last",
    ),
    one(
        "`exited` lasts only while the container is silent",
        _GONE,
        "    since = max(slot.stop_asked_at, slot.late_call_at or slot.stop_asked_at)\n",
        "    since = slot.stop_asked_at\n",
        f"{_LYING_STOPS}::"
        "test_a_container_that_goes_on_calling_is_not_gone_however_long_it_is_exited",
    ),
    one(
        "a late call alone stops no idle slot",
        _GONE,
        "    if _ask_docker(context):\n",
        "    if slot.pk:\n",
        f"{_LYING_STOPS}::test_a_late_call_alone_takes_no_slot_out_of_service",
    ),
    one(
        "an observation without anything of ours has failed",
        "pool/controller/observe.py",
        "    if doubt is None or shows_ours(snapshot.known, snapshot.applications):\n",
        "    if doubt is None or snapshot:\n",
        "tests/pool/controller/test_observe.py::"
        "test_a_list_that_shows_nothing_of_ours_is_a_failed_observation",
    ),
    one(
        "what Coolify still carries out is cancelled again",
        "pool/controller/observe.py",
        "    _reopen(snapshot)\n",
        "",
        "tests/pool/controller/test_observe.py::"
        "test_a_stop_has_to_cancel_again_what_coolify_still_carries_out",
    ),
    # --- The breaker, quarantine, budget ---------------------------------------------------------
    one(
        "repairs that cost a slot come a few at a time",
        "pool/reconciler/reconcile.py",
        "so_far[alike] > SLOTS_IN_A_PASS:",
        "so_far[alike] > 1000 * SLOTS_IN_A_PASS:",
        f"{_BREAKER}::test_repairs_that_cost_a_slot_come_in_small_numbers",
    ),
    one(
        "what was not approved stays held back",
        "pool/reconciler/breaker.py",
        "Finding.objects.filter(lately | approved, ",
        "Finding.objects.filter(lately & ~approved, ",
        f"{_BREAKER}::test_an_operator_approves_a_part_and_the_rest_stays_held_back",
    ),
    one(
        "a slot is not to blame if no other starts",
        "pool/failures/quarantine.py",
        "    if not _others_start(slot, since=last[-1]) or _too_many(slot.platform):\n",
        "    if _too_many(slot.platform):\n",
        f"{_FAILING}::test_a_slot_is_not_to_blame_if_no_other_starts",
    ),
    one(
        "at most a share of a pool is quarantined",
        "pool/failures/quarantine.py",
        " or _too_many(slot.platform):\n",
        ":\n",
        f"{_FAILING}::test_at_most_a_fifth_of_a_pool_is_quarantined",
    ),
    one(
        "observations keep a share of the budget",
        "coolify/budget/governor.py",
        "    CallClass.URGENT: 0.9,\n",
        "    CallClass.URGENT: 1.0,\n",
        "tests/coolify/budget/test_budget.py::"
        "test_starts_and_stops_never_use_up_what_their_observation_needs",
    ),
    one(
        "one call at a time tries a refused access again",
        "coolify/budget/access.py",
        "Refusal.objects.filter(pk=refusal.pk, probe_at=refusal.probe_at)",
        "Refusal.objects.filter(pk=refusal.pk)",
        "tests/coolify/budget/test_access.py::test_of_two_calls_that_find_a_try_due_one_is_sent",
    ),
    one(
        "a try that shows nothing puts off the next one for a moment only",
        "coolify/budget/access.py",
        "    return bool(due.update(probe_at=Now() + settings.COOLIFY_PROBE_PAUSE))\n",
        "    return bool(due.update(probe_at=Now() + TOKENS_FAULT))\n",
        "tests/coolify/budget/test_access.py::"
        "test_a_try_that_the_budget_does_not_send_puts_off_the_next_one_for_5_s_only",
    ),
    # --- Answers that do not come --------------------------------------------------------------
    one(
        "what Botpool deleted itself does not make Coolify's list look wrong",
        "pool/controller/belief/answers.py",
        "        missing = [name for name in missing if name not in asked_for]\n",
        "        missing = list(missing)\n",
        "tests/pool/controller/test_belief.py::"
        "test_applications_that_botpool_deleted_itself_do_not_make_the_list_look_wrong",
    ),
    one(
        "a cluster that starts slowly gets more time at each start",
        "botpool/runtime/watchdog.py",
        "                self.time_to_start = min(2 * self.time_to_start, longest)\n",
        "                self.time_to_start = min(self.time_to_start, longest)\n",
        "tests/botpool/runtime/test_worker.py::"
        "test_a_cluster_that_starts_slowly_gets_twice_the_time_at_each_start",
    ),
    one(
        "a task that is being deleted is not waited for",
        "botpool/runtime/watchdog.py",
        " FOR UPDATE SKIP LOCKED",
        "",
        "tests/botpool/runtime/test_worker.py::"
        "test_a_task_that_is_being_deleted_does_not_keep_others_from_being_given_back",
    ),
    one(
        "a task that ended in a statement leaves a connection that works",
        "core/jobs/jobs.py",
        "            leave_interrupted_statement()\n",
        "",
        "tests/core/jobs/test_jobs.py::"
        "test_a_run_that_ends_in_the_middle_of_a_statement_leaves_its_error",
    ),
    one(
        "a repair that was tried in vain goes last",
        "pool/reconciler/reconcile.py",
        "sorted(lines, key=lambda line: bool(line.found.finding.outcome))",
        "lines",
        f"{_SLOW}::test_a_repair_that_coolify_does_not_answer_leaves_time_for_the_next",
    ),
    one(
        "questions about missing applications have a limited time",
        "pool/reconciler/container_checks.py",
        "questions < MOST_QUESTIONS and time.monotonic() < end",
        "questions < MOST_QUESTIONS",
        f"{_SLOW}::test_questions_about_missing_applications_leave_time_for_repairs",
    ),
    one(
        "a pause of Coolify does not put off the deadline of a deployment",
        "pool/controller/start.py",
        "        again = min(pause, max(_time_left(deployment), timedelta(seconds=1)))\n",
        "        again = pause\n",
        "tests/pool/controller/test_attacks.py::"
        "test_a_long_pause_of_coolify_does_not_put_off_the_deadline_of_a_deployment",
    ),
    one(
        "a bot is not moved between servers for ever",
        "pool/lifecycle.py",
        "        shorten_wait(bot, until=bot.created_at + bot.queue_timeout + "
        "settings.DEPLOY_TIMEOUT)\n",
        "",
        "tests/pool/servers/test_lost_servers.py::"
        "test_a_server_that_comes_and_goes_does_not_keep_a_bot_waiting_for_ever",
    ),
    # --- Servers -------------------------------------------------------------------------------
    one(
        "operators order servers one after the other",
        "pool/servers/orders.py",
        "        advisory_lock(ORDER_SERVERS)\n",
        "",
        f"{_ORDERS}::test_two_operators_cannot_take_out_both_servers",
    ),
    one(
        "the last server in service stays",
        "pool/servers/orders.py",
        "    if len(wanted) <= out.count():\n",
        "    if server.pk is None:\n",
        f"{_ORDERS}::test_the_last_server_in_service_stays",
    ),
    one(
        "a start that was sent moves only after a while",
        "pool/servers/starts.py",
        "    if was_started and (left := _until_lost(server)) != timedelta():\n",
        "    if server.pk is None and (left := _until_lost(server)) != timedelta():\n",
        "tests/pool/servers/test_lost_servers.py::"
        "test_a_start_that_was_sent_moves_only_after_a_while",
    ),
    # --- Clients -------------------------------------------------------------------------------
    one(
        "a slot goes to the client that holds the fewest",
        "pool/sharing/turns.py",
        "return (slots > 1, slots / share, waiter.turn, waiter.entry_id)",
        "return (waiter.turn, waiter.entry_id)",
        f"{_TURNS}::test_a_modest_client_is_served_before_the_flood_of_another",
    ),
    one(
        "requests of one client are counted one after the other",
        "pool/sharing/quota.py",
        "Client.objects.select_for_update(no_key=True).filter(pk=client_id)",
        "Client.objects.filter(pk=client_id)",
        "tests/api/test_quotas.py::test_of_two_requests_at_once_one_gets_the_last_place",
    ),
    one(
        "a client sees its own bots only",
        "api/visibility.py",
        "return bots if sees_all(request) else bots.filter(client=key_of(request).client_id or 0)",
        "return bots",
        "tests/api/test_tenants.py::test_no_call_tells_another_client_of_a_bot",
    ),
    one(
        "an endpoint has few calls in flight",
        "api/webhooks/deliveries.py",
        "places = min(room, PER_ENDPOINT - busy[endpoint.pk], PER_CLIENT - of_client[client])",
        "places = room",
        f"{_ISOLATION}::test_600_events_to_a_dead_host_do_not_delay_another_client",
    ),
    one(
        "an endpoint that failed gets one call at a time",
        "api/webhooks/deliveries.py",
        "places = min(places, failing_room, 1 - busy[endpoint.pk])",
        "places = min(places, failing_room)",
        f"{_ISOLATION}::test_an_endpoint_that_failed_gets_one_call_until_it_answers",
    ),
    # --- Attacks from outside ------------------------------------------------------------------
    one(
        "attempts to log in are limited",
        "dashboard/login.py",
        "    if is_throttled(attempt):\n",
        "    if attempt.pk is None:\n",
        f"{_TRICKS}::test_login_attempts_are_limited",
        "tests/dashboard/test_login.py::"
        "test_attempts_at_once_count_before_their_password_is_checked",
    ),
    one(
        "webhooks go to public addresses of IPv6 only",
        "api/webhooks/addresses.py",
        "        ip.version == 6 and ip not in _PUBLIC_IPV6\n",
        "        ip.version == 6 and ip.is_multicast\n",
        f"{_TRICKS}::test_webhooks_cannot_reach_private_addresses",
    ),
    one(
        "the text of an error forges no line of the log",
        "core/logs.py",
        'line += f"\\n    {_unlike_an_id(one_line(each))}"',
        'line += f"\\n{each}"',
        f"{_TRICKS}::test_the_text_of_an_error_cannot_forge_a_log_line",
    ),
    one(
        "exports hold no formulas",
        "dashboard/lists/csv_export.py",
        """    return _FORMULA.sub(r"\\1'", str(value))\n""",
        "    return str(value)\n",
        f"{_TRICKS}::test_a_spreadsheet_runs_no_text_of_an_export",
    ),
    one(
        "no answer of the API is kept in a cache",
        "api/problems.py",
        '        response.headers.setdefault("Cache-Control", "no-store")\n',
        "",
        f"{_PROBLEMS}::test_no_answer_is_kept_in_a_cache",
    ),
    one(
        "an answer names few errors",
        "api/problems.py",
        "sorted(errors)[:MOST_ERRORS]",
        "sorted(errors)",
        f"{_PROBLEMS}::test_a_long_list_of_errors_is_cut",
    ),
    one(
        "short names of secrets are masked",
        "bots/secrets/names.py",
        "_WORDS.search(left) or ",
        "",
        "tests/bots/test_masking.py::test_a_secret_is_hidden_by_its_name",
    ),
    one(
        "a bot that does not leave when told to loses its slot",
        "pool/reconciler/long_meetings.py",
        "busy.filter(assigned_bot__started_at__lt=latest)",
        "busy.filter(assigned_bot__started_at__lt=latest, pk=None)",
        "tests/pool/reconciler/test_long_meetings.py::"
        "test_a_bot_that_stays_all_the_same_fails_and_its_slot_is_released",
    ),
    # --- Faults of the database and the disk ---------------------------------------------------
    one(
        "a read-only database is not ready",
        "core/sql.py",
        'return "read_only" if is_read_only else "" if may_write else "privileges"',
        'return "" if may_write else "privileges"',
        f"{_READ_ONLY}::test_a_read_only_database_is_not_ready",
    ),
    one(
        "a database that cannot be written to is no error of ours",
        "core/sql.py",
        "    READ_ONLY,\n    INSUFFICIENT_PRIVILEGE,\n",
        "",
        f"{_READ_ONLY}::test_the_api_answers_that_it_is_unavailable",
        f"{_READ_ONLY}::test_pages_answer_that_they_are_unavailable",
    ),
    one(
        "the ticker goes on beside a read-only database",
        "core/jobs/ticker.py",
        """                if not is_unavailable(error):
                    raise
                logger.warning("The ticker lost""",
        """                if error:
                    raise
                logger.warning("The ticker lost""",
        f"{_TICKER}::test_it_goes_on_beside_a_read_only_database",
    ),
    one(
        "a pass asks for a limited number of woken jobs",
        "core/jobs/ticker.py",
        "woken = set(islice(self.woken, MOST_AT_ONCE))",
        "woken = set(self.woken)",
        f"{_TICKER}::test_thousands_of_jobs_are_asked_for_in_several_passes",
    ),
    one(
        "a pass asks for a limited number of due jobs",
        "core/jobs/jobs.py",
        "*due[:MOST_AT_ONCE]",
        "*due",
        f"{_TICKER}::test_thousands_of_due_jobs_are_asked_for_in_several_passes_the_oldest_first",
    ),
    one(
        "thousands of events are noted in several statements",
        "api/webhooks/deliveries.py",
        "        batch_size=ROWS_AT_ONCE,\n",
        "",
        "tests/api/test_webhooks.py::test_more_events_than_one_statement_holds_values_are_noted",
    ),
    one(
        "a finished task that cannot be removed ends nothing",
        "core/jobs/broker.py",
        'with pausing_without_database("remove a finished task"):',
        "if True:",
        "tests/core/jobs/test_broker.py::test_a_task_that_cannot_be_acknowledged_is_only_noted",
    ),
    one(
        "a deadlock keeps its traceback",
        "core/sql.py",
        "    return sqlstate(error) not in _PERHAPS_OUR_FAULT",
        "    return True",
        "tests/core/test_logs.py::test_an_error_that_may_be_our_fault_has_its_traceback",
    ),
    one(
        "a refused request writes no traceback",
        "core/logs.py",
        ' or record.name.startswith("django.security."):\n',
        ":\n",
        "tests/core/test_logs.py::test_a_refusal_has_no_traceback",
    ),
    one(
        "a slot's own steps believe an operator",
        "pool/controller/belief/answers.py",
        "    if _operator_says_that_it_is_gone(uuid):\n",
        "    if False:\n",
        "tests/pool/controller/test_belief.py::"
        "test_a_slot_that_stops_believes_an_operator_without_a_repair",
    ),
    one(
        "a short secret stops the start",
        "botpool/runtime/secret_files.py",
        "    if len(secret) < SHORTEST:\n",
        "    if secret is None:\n",
        "tests/botpool/test_settings.py::test_an_empty_or_short_secret_file_is_refused_with_one_line",
    ),
    one(
        "a migration is recorded in its own transaction",
        "botpool/management/commands/migrate.py",
        "            self.migration.enter_context(transaction.atomic(self.database))\n",
        "            self.migration.callback(transaction.get_connection)\n",
        "tests/botpool/runtime/test_killed_first_start.py::"
        "test_the_next_start_works_after_a_kill_before_a_migration_was_recorded",
    ),
    one(
        "an index that an interrupted migration left is made anew",
        "core/migration_operations.py",
        '        schema_editor.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {self.index.name}")\n',
        "",
        "tests/ops/test_migrations.py::test_a_migration_that_is_not_atomic_can_be_repeated",
    ),
    one(
        "a start that Coolify never accepted costs its slot no recovery",
        "pool/lifecycle.py",
        "move = SlotMove(to=SlotStatus.STOPPING, reason=reason, actor=actor, cause=cause)\n",
        "move = SlotMove(to=SlotStatus.ERROR, reason=reason, actor=actor, cause=cause)\n",
        "tests/pool/controller/test_advance.py::"
        "test_a_start_that_coolify_never_accepts_ends_at_its_deadline",
    ),
    one(
        "a status from before a start is not believed after its stop",
        "pool/controller/containers/gone.py",
        "    if observed_at <= max(slot.stop_asked_at, slot.status_has_settled_at):\n",
        "    if observed_at <= slot.stop_asked_at:\n",
        "tests/pool/controller/test_lying_stops.py::"
        "test_exited_is_not_believed_just_after_the_start_of_a_short_meeting",
    ),
    one(
        "behind a pooler no statement is prepared",
        "botpool/apps.py",
        "    if is_direct(connection):\n",
        "    if True:\n",
        "tests/ops/test_neighbours.py::test_it_works_behind_pgbouncer_with_few_connections",
    ),
    one(
        "another probe may pass if the first one does not answer in time",
        "coolify/budget/governor.py",
        "    probe_patience: float = field(default_factory=_probe_pause)\n",
        "    probe_patience: float = 90.0\n",
        "tests/coolify/budget/test_budget.py::"
        "test_another_probe_may_pass_if_the_first_one_does_not_answer_in_time",
    ),
    one(
        "a busy web process leaves new clients to the others",
        "botpool/runtime/web/worker.py",
        "        return now == self.free_at or now > self.free_at + BUSY_SECONDS\n",
        "        return True\n",
        "tests/botpool/runtime/test_web.py::"
        "test_a_process_leaves_clients_to_the_others_while_requests_wait_in_it",
    ),
    one(
        "a process ends with its supervisor",
        "botpool/runtime/process.py",
        "        end_with(supervisor)\n",
        "",
        "tests/botpool/runtime/test_orphans.py::"
        "test_a_process_ends_with_its_supervisor_if_the_reaper_was_killed_first",
    ),
    one(
        "a fork ends with the process that forked it",
        "botpool/runtime/orphans.py",
        "    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)\n",
        "",
        "tests/botpool/runtime/test_orphans.py::test_a_fork_ends_with_the_process_that_forked_it",
    ),
    one(
        "a process whose parent is already gone ends",
        "botpool/runtime/orphans.py",
        "    if os.getppid() != parent:",
        "    if False:",
        "tests/botpool/runtime/test_orphans.py::"
        "test_a_process_whose_parent_was_already_gone_ends_at_once",
    ),
    one(
        "a waiter that is locked for a moment keeps its turn",
        "pool/drain.py",
        "            bot = _wait_for(bot_id)\n",
        "",
        "tests/pool/test_drain_races.py::test_a_waiter_that_is_locked_for_a_moment_keeps_its_turn",
    ),
    one(
        "a pass that has lost its lease writes no findings",
        "pool/reconciler/reconcile.py",
        "        extend_lease(lease)\n        with lease.fenced():\n",
        "        if True:\n",
        "tests/pool/reconciler/test_findings.py::"
        "test_a_pass_that_was_frozen_leaves_the_findings_to_the_one_that_took_over",
    ),
    one(
        "a long pass is no break in the evidence",
        "pool/reconciler/findings.py",
        "settings.RECONCILE_INTERVAL + LONGEST_PASS\n",
        "settings.RECONCILE_INTERVAL\n",
        "tests/pool/reconciler/test_findings.py::test_a_long_pass_is_no_break",
    ),
    one(
        "a webhook's result that cannot be stored costs no other",
        "api/webhooks/deliveries.py",
        "    except Exception as error:\n",
        "    except ZeroDivisionError as error:\n",
        "tests/api/test_webhooks.py::test_a_result_that_cannot_be_stored_costs_no_other",
    ),
    one(
        "what a receiver of webhooks answers is made fit for the database",
        "api/webhooks/sending.py",
        "one_line(self.answer)[:LONGEST_ANSWER]",
        "self.answer",
        "tests/api/test_webhooks.py::test_garbage_of_a_receiver_can_be_stored",
    ),
    one(
        "a webhook whose senders all died is given up",
        "api/webhooks/deliveries.py",
        "    _give_up_without_results()\n",
        "",
        "tests/api/test_webhooks.py::test_a_delivery_whose_senders_all_died_is_given_up",
    ),
    one(
        "the extensions of chunks count",
        "botpool/runtime/web/bodies.py",
        "        self._count(length + 2)\n",
        "",
        "tests/botpool/runtime/test_web_framing.py::"
        "test_the_extensions_of_chunks_count_while_they_arrive",
    ),
    one(
        "the liveness probe has a thread of its own",
        "botpool/runtime/web/worker.py",
        "self.for_probes if connection.framing.path == PROBE else self.tpool",
        "self.tpool",
        "tests/botpool/runtime/test_web.py::test_a_probe_is_answered_while_all_threads_wait",
    ),
    one(
        "a busy web process accepts clients again",
        "botpool/runtime/web/worker.py",
        " or now > self.free_at + BUSY_SECONDS\n",
        "\n",
        "tests/botpool/runtime/test_web.py::test_a_probe_is_answered_while_all_threads_wait",
    ),
    one(
        "a statement of a request has a limit",
        "core/statement_limit.py",
        "        if limit is None or timeout is not None:",
        "        if True:",
        "tests/core/test_statement_limit.py::test_a_statement_that_takes_too_long_is_cancelled",
    ),
    one(
        "viewers see the host of a webhook only",
        "dashboard/clients/addresses.py",
        "    return address if may_administer else host_of(address)\n",
        "    return address\n",
        "tests/security/test_hidden_addresses.py::"
        "test_the_admin_shows_no_secret_to_those_who_may_not_administer",
    ),
    one(
        "a web process that ends answers the next request of a busy client",
        "botpool/runtime/web/worker.py",
        "began + min(LAST_REQUESTS_SECONDS, self.cfg.graceful_timeout)",
        "began",
        "tests/botpool/runtime/test_web.py::"
        "test_the_next_request_on_an_open_connection_is_answered_while_the_process_ends",
    ),
)
