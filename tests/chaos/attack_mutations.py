"""Mutations of what attackers, or an operator's slip, found missing."""

from tests.chaos.mutation import one

_HIDDEN = "tests/security/test_hidden_addresses.py"
_CALLING = "tests/api/test_bots_calling_back.py"
_MASKING = "tests/bots/test_masking.py"
_SIMULATOR = "tests/coolify/simulator/test_simulator_control.py"
_FRAMING = "tests/botpool/runtime/test_web_framing.py"
_READ_ONLY = "tests/botpool/telemetry/test_read_only.py"
_WEB = "tests/botpool/runtime/test_web.py"
_VISITORS = "coolify/simulator/http/visitors.py"

AGAINST_ATTACKS = (
    one(
        "secrets in a bot's reason are hidden",
        "api/schemas/bots.py",
        "text = masked_line(known)",
        "text = known",
        f"{_CALLING}::test_a_secret_in_a_reason_is_neither_stored_nor_logged",
    ),
    one(
        "secrets of a bot's own configuration are hidden in its reasons",
        "api/schemas/bots.py",
        "*tokens, bot=bot)",
        "*tokens, bot=None)",
        f"{_CALLING}::test_the_secrets_of_its_own_config_are_hidden_in_a_reason",
    ),
    one(
        "a bot's token is hidden in its reasons",
        "api/schemas/bots.py",
        'tokens = (token, token.rpartition(".")[2])',
        "tokens: tuple[str, ...] = ()",
        f"{_CALLING}::test_the_token_of_a_bot_is_hidden_in_its_reason",
    ),
    one(
        "the passcode of its meeting is hidden in a bot's reasons",
        "bots/secrets/known.py",
        "    yield from secrets_in_address(bot.meeting_url)\n",
        "",
        f"{_CALLING}::test_the_passcode_of_its_address_is_hidden_in_a_reason",
    ),
    one(
        "thousands of secrets in a configuration are not all looked for",
        "bots/secrets/known.py",
        "islice(secret_values(bot.config), MOST_SECRETS)",
        "islice(secret_values(bot.config), None)",
        "tests/pool/controller/test_log_text.py::"
        "test_thousands_of_secrets_in_a_configuration_are_not_all_looked_for",
    ),
    one(
        "what is hidden because of its form is a known secret",
        "bots/masking.py",
        "        yield from _hidden_parts(value)\n",
        "        pass\n",
        f"{_MASKING}::test_what_is_hidden_because_of_its_form_is_a_known_secret",
    ),
    one(
        "a bot in a loop fills no history",
        "pool/reports.py",
        "returns.count() >= MOST_RETURNS",
        "False",
        f"{_CALLING}::test_a_bot_that_is_sent_back_without_end_fills_no_history",
    ),
    one(
        "large numbers are counted before they are written out",
        "api/schemas/bodies.py",
        "if self._digits_left < 0:",
        "if False:",
        "tests/api/test_asking_for_bots.py::"
        "test_numbers_that_would_fill_the_memory_are_refused_before_they_are_written_out",
    ),
    one(
        "a transaction that the server ended can be repeated",
        "core/sql.py",
        "    IDLE_TRANSACTION_ENDED,\n    TRANSACTION_ENDED,\n",
        "",
        "tests/core/test_frozen_transactions.py::"
        "test_a_transaction_that_the_server_has_ended_is_no_fault_of_ours",
        "tests/core/test_frozen_transactions.py::test_a_ticker_that_was_frozen_in_a_pass_goes_on",
    ),
    one(
        "endpoints of one client leave calls to others",
        "api/webhooks/deliveries.py",
        ", PER_CLIENT - of_client[client])",
        ")",
        "tests/api/test_webhook_isolation.py::"
        "test_endpoints_of_one_client_leave_half_of_the_calls_to_others",
    ),
    one(
        "a signal that Python swallows ends the start",
        "botpool/management/commands/up.py",
        "        self.interruption.check()\n",
        "",
        "tests/botpool/runtime/test_up.py::test_a_signal_that_python_swallows_still_ends_the_start",
    ),
    one(
        "a key that could not be shown is not kept",
        "botpool/management/commands/create_api_key.py",
        "    @transaction.atomic\n",
        "",
        "tests/botpool/runtime/test_command_line.py::test_a_key_that_could_not_be_shown_is_not_kept",
    ),
    one(
        "commands report a read-only database in one line",
        "botpool/runtime/command_line.py",
        "    if is_unavailable(error):\n",
        "    if type(error).__name__ == 'OperationalError':\n",
        "tests/botpool/runtime/test_command_line.py::"
        "test_a_read_only_database_is_reported_in_one_line",
    ),
    one(
        "the doctor names a read-only database",
        "botpool/telemetry/doctor.py",
        "        yield (database := _writes())\n",
        "        pass\n",
        "tests/botpool/runtime/test_command_line.py::test_the_doctor_names_a_read_only_database",
    ),
    one(
        "an action takes no more targets than a page offers",
        "dashboard/actions/action.py",
        "    if len(targets) > MOST_TARGETS:\n",
        "    if False:\n",
        "tests/dashboard/test_actions.py::test_more_targets_than_a_page_offers_are_refused",
    ),
    one(
        "a frozen gate of the chaos does not stay slow",
        "tests/chaos/gate.py",
        "= signal.SIGUSR1, signal.SIGUSR2, ",
        "= signal.SIGUSR2, signal.SIGUSR1, ",
        "tests/chaos/test_gate.py::"
        "test_a_gate_that_is_frozen_while_it_is_mended_is_good_afterwards",
    ),
    one(
        "one receiver is one endpoint",
        "api/webhooks/endpoints.py",
        "host = receiver_of(url)",
        'host = "/".join(url.split("/")[:3]).lower()',
        "tests/api/test_webhook_isolation.py::"
        "test_one_receiver_is_one_endpoint_however_it_is_spelled",
    ),
    one(
        "a list of secrets inside a text is hidden as a whole",
        "bots/masking.py",
        "_REST.match(text, end_of_nested(text, start))",
        "value.match(text, start)",
        f"{_MASKING}::test_a_whole_list_or_object_inside_a_text_is_hidden",
    ),
    one(
        "JSON inside a text is masked like a configuration",
        "bots/masking.py",
        "_without_secrets(_with_masked_json(text, depth=depth))",
        "_without_secrets(text)",
        f"{_MASKING}::test_a_whole_list_or_object_inside_a_text_is_hidden",
    ),
    one(
        "a bracket in quotation marks closes no list of secrets",
        "bots/secrets/ends.py",
        "                quote, escapes = sign, slashes\n",
        "                escapes = slashes\n",
        f"{_MASKING}::test_a_whole_list_or_object_inside_a_text_is_hidden",
    ),
    one(
        "a secret in a sentence is hidden",
        "bots/masking.py",
        "    return without_secrets_in_prose(text)\n",
        "    return text\n",
        f"{_MASKING}::test_a_secret_in_prose_is_hidden",
    ),
    one(
        "ordinary sentences stay readable",
        "bots/secrets/prose.py",
        "word.lower() in _ORDINARY or _is_adjective(word)",
        "not word",
        f"{_MASKING}::test_ordinary_prose_is_shown",
    ),
    one(
        "a bot's last report is not refused for its details",
        "api/schemas/bodies.py",
        "return _parse_report(_readable(request.body))",
        "return _parse(request.body)",
        f"{_CALLING}::test_a_last_report_is_not_refused_for_a_detail",
    ),
    one(
        "a bot's last report is not refused for what it nests",
        "api/schemas/bodies.py",
        "_parse(_without_depths(text), **_lenient())",
        "_parse(text, **_lenient())",
        f"{_CALLING}::test_a_last_report_is_not_refused_for_a_detail",
    ),
    one(
        "a bot's last report is not refused for the form of its status",
        "api/schemas/bots.py",
        "given.strip().upper()",
        "given",
        f"{_CALLING}::test_the_case_of_a_status_and_blanks_around_it_do_not_matter",
    ),
    one(
        "searches find only what pages show",
        "bots/search.py",
        "shown = masked_address(model_instance.meeting_url)",
        "shown = model_instance.meeting_url",
        f"{_HIDDEN}::test_a_search_finds_no_secret_in_the_path_of_an_address",
    ),
    one(
        "the admin shows no hash of a request",
        "dashboard/admin.py",
        'exclude = ["body_hash"]',
        "exclude: list[str] = []",
        f"{_HIDDEN}::test_the_admin_shows_no_hash_of_a_secret",
    ),
    one(
        "guesses of the old password are limited",
        "dashboard/login.py",
        "        with counted_attempt(self.user.get_username(), self.request):\n"
        "            return super().clean_old_password()\n",
        "        return super().clean_old_password()\n",
        "tests/dashboard/test_login.py::test_guesses_of_the_old_password_are_limited_like_logins",
    ),
    one(
        "meetings beyond their limit wait for no operator",
        "pool/reconciler/breaker.py",
        "FindingKind.MEETING_TOO_LONG: Harm.SLOT",
        "FindingKind.MEETING_TOO_LONG: Harm.MEETING",
        "tests/pool/reconciler/test_long_meetings.py::"
        "test_however_many_stay_none_waits_for_an_operator",
    ),
    one(
        "a slot without its application is given away last",
        "pool/claim.py",
        "    return slot is not None and not slot.application_missing\n",
        "    return slot is not None\n",
        "tests/pool/servers/test_placing_bots.py::"
        "test_an_idle_slot_whose_application_is_not_listed_comes_last",
    ),
    one(
        "a private host is refused with a trailing dot, too",
        "api/webhooks/addresses.py",
        '    host = host.rstrip(".")',
        "    host = str(host)",
        "tests/security/test_tricks.py::test_a_private_address_is_refused_without_dns",
    ),
    one(
        "the simulator answers under its own names only",
        _VISITORS,
        "    if not is_own(name) and",
        "    if not name and",
        f"{_SIMULATOR}::test_a_host_that_anybody_can_own_is_refused",
    ),
    one(
        "the simulator refuses forms of other sites",
        _VISITORS,
        "    if origin is not None and",
        "    if not host and origin and",
        f"{_SIMULATOR}::test_the_form_of_a_foreign_page_is_refused",
    ),
    one(
        "an address that is shown has no password",
        "core/environment.py",
        "(is_right and is_open)",
        "is_right",
        "tests/botpool/test_settings.py::"
        "test_an_address_with_a_password_is_refused_without_showing_it",
    ),
    one(
        "an address has a port that exists",
        "core/environment.py",
        "parts.port != 0 and",
        "parts.netloc and",
        "tests/botpool/test_settings.py::test_a_wrong_value_is_refused_with_one_line",
    ),
    one(
        "wrong hosts do not flood the log",
        "botpool/unknown_hosts.py",
        "time.monotonic() + LOG_INTERVAL",
        "time.monotonic()",
        "tests/botpool/test_unknown_hosts.py::test_a_flood_of_wrong_hosts_does_not_flood_the_log",
    ),
    one(
        "an operator's cancel is told as one",
        "api/clients.py",
        " and key.client_id != bot.client_id",
        " and key.client_id == bot.client_id",
        "tests/api/test_tenants.py::"
        "test_the_history_tells_whether_the_client_or_an_operator_cancelled",
    ),
    one(
        "a connection closes only if its client was told",
        "botpool/runtime/web/worker.py",
        "or not self.keeps_open)",
        "or not self.alive)",
        "tests/botpool/runtime/test_web.py::"
        "test_a_connection_stays_open_if_its_client_was_not_told_that_it_closes",
    ),
    one(
        "a cookie with NUL is no cookie",
        "botpool/middleware.py",
        'if "\\x00" not in name + value}',
        "}",
        "tests/security/test_tricks.py::test_a_nul_in_a_cookie_is_no_cookie",
    ),
    one(
        "a role that finds no tables is told so",
        "botpool/telemetry/health.py",
        'is_refused = is_hidden("django_migrations")',
        "is_refused = False",
        f"{_READ_ONLY}::test_a_role_that_finds_no_tables_is_told_so",
    ),
    one(
        "the API is unavailable without its tables",
        "core/sql.py",
        "    UNDEFINED_TABLE,\n    UNDEFINED_COLUMN,\n    IDLE",
        "    IDLE",
        f"{_READ_ONLY}::test_the_api_answers_that_it_is_unavailable",
    ),
    one(
        "the tables of pages count, too",
        "botpool/telemetry/health.py",
        "if model._meta.managed}",
        'if model._meta.app_label in ("bots", "queues", "slots")}',
        f"{_READ_ONLY}::test_a_role_without_a_right_that_pages_need_is_not_ready",
    ),
    one(
        "a line of .env that cannot be read stops the start",
        "core/environment.py",
        "        if each.error:\n",
        "        if False:\n",
        "tests/botpool/test_settings.py::test_a_line_that_cannot_be_read_is_refused",
    ),
    one(
        "tiny chunks are refused",
        "botpool/runtime/web/limits.py",
        "LARGEST_OVERHEAD = 20_000\n",
        "LARGEST_OVERHEAD = 1_000_000\n",
        f"{_FRAMING}::test_tiny_chunks_are_refused_early",
    ),
    one(
        "plain chunks count",
        "botpool/runtime/web/bodies.py",
        "            self._count(begin - start + 2)\n",
        "",
        f"{_FRAMING}::test_tiny_chunks_are_refused_early",
    ),
    one(
        "a long request line is told from large headers",
        "botpool/runtime/web/framing.py",
        "<= begin + LONGEST_REQUEST_LINE:",
        "<= len(data):",
        f"{_FRAMING}::test_an_ambiguous_or_oversized_request_is_refused_as_soon_as_it_is_seen",
    ),
    one(
        "requests that wait for a thread count",
        "botpool/runtime/web/worker.py",
        "        self._count(connection)\n        threads =",
        "        threads =",
        f"{_WEB}::test_the_largest_request_that_waits_for_a_thread_is_refused_when_memory_is_short",
        f"{_WEB}::test_a_request_is_counted_until_its_thread_has_ended",
    ),
    one(
        "requests that wait for a thread have a limit",
        "botpool/runtime/web/worker.py",
        "            elif self.working[connection].cancel():",
        "            elif False:",
        f"{_WEB}::test_the_largest_request_that_waits_for_a_thread_is_refused_when_memory_is_short",
    ),
)
