"""The questions about Coolify. Each answer is tried there before the next question."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from botpool.setup.answers import Answers
from botpool.setup.console import Choice
from botpool.setup.values import fault_in
from botpool.telemetry.doctor import abilities
from coolify.client import Coolify
from coolify.client.errors import CoolifyError, NotFound, Unauthenticated, WrongAddress
from coolify.client.resources import Server

T = TypeVar("T")
API = "/api/v1"
NO_TOKEN = "setup"  # noqa: S105 - refused by every Coolify, which shows that it is one


def ask_about_coolify(answers: Answers) -> None:
    url = answers.need(
        "COOLIFY_API_URL",
        "Coolify's address, such as https://coolify.example",
        fault=_fault_of_address,
        clean=_with_path,
    )
    answers.need(
        "COOLIFY_API_TOKEN",
        "An API token with read, write and deploy (Coolify: Keys & Tokens, API tokens)",
        fault=lambda token: _fault_of_token(url, token),
        secret=True,
    )
    coolify = Coolify(url, answers["COOLIFY_API_TOKEN"])
    _ask_for_project(answers, coolify)
    _ask_for_environment(answers, coolify)
    _ask_for_destination(answers, coolify, _ask_for_servers(answers, coolify))


def _with_path(address: str) -> str:
    address = address.rstrip("/")
    if address and "://" not in address:
        address = f"https://{address}"
    return address if address.endswith(API) or not address else address + API


def _fault_of_address(url: str) -> str:
    fault = fault_in({"COOLIFY_API_URL": url})
    if fault:
        return fault
    try:
        Coolify(url, NO_TOKEN).version()
    except Unauthenticated:
        return ""  # it is a Coolify, and its API is enabled
    except CoolifyError as error:
        return str(error)
    return ""


def _fault_of_token(url: str, token: str) -> str:
    if not token.isascii() or any(char.isspace() for char in token):
        return "a token has no spaces and no special letters; copy it again"
    faults = [each for each in abilities(Coolify(url, token)) if each.healthy is False]
    return faults[0].finding if faults else ""  # Coolify's error has the advice already


def _listed(answers: Answers, thing: str, call: Callable[[], list[T]], missing: str) -> list[T]:
    """Asked again until there is one."""
    while True:
        try:
            found = call()
        except CoolifyError as error:
            answers.console.fault(f"Coolify does not list its {thing}: {error}")
        else:
            if found:
                return found
            answers.console.fault(missing)
        answers.console.text("Press Enter to try again", name=thing)


# --- Where applications are made ------------------------------------------------------------------


def _ask_for_project(answers: Answers, coolify: Coolify) -> None:
    missing = "Coolify has no project. Add one under Projects, for the slots alone."
    projects = _listed(answers, "projects", coolify.projects, missing)
    choices = [Choice(value=each.uuid, words=f"{each.name} ({each.uuid})") for each in projects]
    answers.need_one(
        "COOLIFY_PROJECT_UUID",
        "Which project should hold the slots? Choose one that holds nothing else",
        choices,
    )


def _ask_for_environment(answers: Answers, coolify: Coolify) -> None:
    project = answers["COOLIFY_PROJECT_UUID"]
    missing = "The project has no environment. Add one in Coolify."
    found = _listed(answers, "environments", lambda: coolify.environments(project), missing)
    names = [each.name for each in found]
    if not answers.has("COOLIFY_ENVIRONMENT_NAME") and "production" in names:
        return  # the default
    choices = [Choice(value=name, words=name) for name in names]
    answers.need_one("COOLIFY_ENVIRONMENT_NAME", "Which environment?", choices)


def _ask_for_servers(answers: Answers, coolify: Coolify) -> list[Server]:
    missing = "Coolify has no server. Add one under Servers, and validate it."
    servers = _listed(answers, "servers", coolify.servers, missing)
    choices = [Choice(value=each.uuid, words=_words_for(each)) for each in servers]
    answers.need_some("COOLIFY_SERVER_UUID", "The servers that should run the bots", choices)
    wanted = answers["COOLIFY_SERVER_UUID"].split(",")
    chosen = [each for each in servers if each.uuid in wanted]
    for each in chosen:
        if each.is_reachable is False or each.is_usable is False:
            answers.console.say(
                f"note   {each.name or each.uuid} is not reachable: validate it in Coolify. "
                "No bot starts there until then."
            )
    return chosen


def _words_for(server: Server) -> str:
    state = "" if server.is_reachable is not False else ", not reachable"
    return f"{server.name or 'unnamed'} ({server.uuid}{state})"


def _ask_for_destination(answers: Answers, coolify: Coolify, servers: Sequence[Server]) -> None:
    """Only where a server has several: with one, Coolify takes it."""
    for server in servers:
        found = _destinations(answers, coolify, server)
        if answers.has("COOLIFY_DESTINATION_UUID") or len(found) > 1:
            choices = [Choice(value=each, words=each) for each in found]
            question = f"{server.name or server.uuid} has {len(found)} destinations. Which one?"
            answers.need_one("COOLIFY_DESTINATION_UUID", question, choices)


def _destinations(answers: Answers, coolify: Coolify, server: Server) -> list[str]:
    missing = f"{server.name or server.uuid} has no destination. Add one in Coolify, a network."
    try:
        coolify.destinations(server.uuid)
    except (NotFound, WrongAddress):
        return []  # this version of Coolify does not show them
    except CoolifyError:
        pass  # said below, and tried again
    return _listed(answers, "destinations", lambda: coolify.destinations(server.uuid), missing)
