"""Coolify's API: authentication, rate limit and routing."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from coolify.simulator.fields import known_query
from coolify.simulator.http.rate_limit import RateLimit
from coolify.simulator.messages import Answer, Refusal, Request, not_found, ok, refusal
from coolify.simulator.settings import Token
from coolify.simulator.world.faults import Faults
from coolify.simulator.world.world import World

PREFIX = "/api/v1"
OLD_HEALTH = "/api/health"
# What a token of another team gets: an empty list, or that this does not exist.
LISTS_OF_TEAM = frozenset({"/applications", "/deployments", "/servers", "/projects"})
Handler = Callable[..., Answer]


@dataclass(frozen=True)
class Route:
    """`path` contains `{names}`, which the handler receives as keyword arguments.

    Before the version `since`, Coolify does not know the route.
    """

    method: str
    path: str
    ability: str | None
    handler: Handler
    query: frozenset[str] = frozenset()
    changes_state: bool = False
    since: str = "4.0.0"
    ignores_query: bool = False

    def matches(self, path: str) -> dict[str, str] | None:
        wanted, given = self.path.split("/"), path.split("/")
        if len(wanted) != len(given):
            return None
        found: dict[str, str] = {}
        for want, have in zip(wanted, given, strict=True):
            if want.startswith("{"):
                found[want[1:-1]] = have
            elif want != have:
                return None
        return found

    @property
    def belongs_to_team(self) -> bool:
        return self.path not in ("/version", "/health")


def as_another_team_sees(route: Route) -> Answer:
    if route.method == "GET" and route.path in LISTS_OF_TEAM:
        return ok([])
    if route.path.startswith("/projects") or route.path.endswith("/dockerimage"):
        raise not_found("Project not found.")
    if route.path.startswith("/deployments/{"):
        raise not_found("Deployment not found.")
    if route.path.startswith("/servers/"):
        raise not_found("Server not found.")
    raise not_found("Application not found.")


class Api:
    def __init__(self, *, world: World, faults: Faults, routes: list[Route]) -> None:
        self._world = world
        self._faults = faults
        self._routes = routes
        self._limit = RateLimit()
        self._refusals = RateLimit()
        self._tokens = {token.plain: token for token in world.settings.tokens}

    def answer(self, request: Request) -> Answer:
        headers: dict[str, str] = {}
        try:
            self._check_parts(request)
            self._check_refusals(request)
            token = self._token(request)
            headers = self._spend(token, request)
            answer = self._routed(request, token=token)
        except Refusal as refused:
            answer = refused.answer
        if answer.status in (401, 403):
            self._refusals.count(user=sent_token(request), now=self._world.clock.now())
        answer.headers = headers | answer.headers
        return answer

    def _check_parts(self, request: Request) -> None:
        """Without Redis nothing works; without its database, Coolify still says it is healthy."""
        is_health = self._path(request) == "/health"
        if self._faults.strikes("redis_down"):
            raise refusal(500, "Server Error")
        if not is_health and self._faults.strikes("database_down"):
            raise refusal(500, "Server Error")

    def _check_refusals(self, request: Request) -> None:
        limit = self._world.settings.refusals_allowed
        if limit is not None:
            now = self._world.clock.now()
            self._refusals.check(user=sent_token(request), limit=limit, now=now)

    def _token(self, request: Request) -> Token | None:
        return self._tokens.get(sent_token(request))

    def _spend(self, token: Token | None, request: Request) -> dict[str, str]:
        """Count by user; the first user, whose id is 0, shares its count with its address."""
        limit = self._world.settings.rate_limit
        counted = token is not None or self._path(request) == "/health"
        if limit is None or not counted:
            return {}
        user = token.user if token and token.user != "0" else request.address
        return self._limit.spend(user=user, limit=limit, now=self._world.clock.now())

    def _path(self, request: Request) -> str:
        return "/health" if request.path == OLD_HEALTH else request.path.removeprefix(PREFIX)

    def _routed(self, request: Request, *, token: Token | None) -> Answer:
        path = self._path(request)
        for route in self._routes:
            found = route.matches(path)
            if found is not None and self._method_fits(route, request):
                return self._run(route, request, token=token, found=found)
        raise refusal(404, "Not found.", docs="https://coolify.io/docs")

    def _method_fits(self, route: Route, request: Request) -> bool:
        known = self._world.settings.at_least(route.since)
        fits = request.method == route.method or (route.changes_state and request.method == "GET")
        return known and fits

    def _run(
        self, route: Route, request: Request, *, token: Token | None, found: dict[str, str]
    ) -> Answer:
        if route.ability is not None:
            self._admit(token, ability=route.ability)
        if request.method != route.method and self._world.settings.at_least("4.2.0"):
            raise refusal(405, "This endpoint has changed to a POST request.")
        if not route.ignores_query:
            known_query(request, allowed=route.query)
        if route.belongs_to_team and self._faults.strikes("wrong_team"):
            return as_another_team_sees(route)
        sees_secrets = token is not None and token.allows("read:sensitive")
        return route.handler(replace(request, sees_secrets=sees_secrets), **found)

    def _admit(self, token: Token | None, *, ability: str) -> None:
        if token is None:
            raise refusal(401, "Unauthenticated.")
        if self._faults.strikes("api_disabled"):
            raise refusal(403, "API is disabled.", success=True)
        if self._faults.strikes("address_refused"):
            raise refusal(403, "You are not allowed to access the API.", success=True)
        if not token.allows(ability):
            raise refusal(403, f"Missing required permissions: {ability}")
        if not token.team:
            raise refusal(401, "Invalid token.")
        if self._is_member(token) and token.may_change:
            raise refusal(403, "Missing required team role.")

    def _is_member(self, token: Token) -> bool:
        """Since 4.2.0, a token that may do more than read needs a user who is a team's admin."""
        if not self._world.settings.at_least("4.2.0"):
            return False
        return token.role == "member" or self._faults.strikes("member_role")


def sent_token(request: Request) -> str:
    return request.headers.get("authorization", "").removeprefix("Bearer ")
