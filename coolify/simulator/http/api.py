"""Coolify's API: authentication, rate limit and routing."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from coolify.simulator.fields import known_query
from coolify.simulator.http.rate_limit import RateLimit
from coolify.simulator.messages import Answer, Refusal, Request, refusal
from coolify.simulator.settings import Token
from coolify.simulator.world.faults import Faults
from coolify.simulator.world.world import World

PREFIX = "/api/v1"
OLD_HEALTH = "/api/health"
Handler = Callable[..., Answer]


@dataclass(frozen=True)
class Route:
    """`path` contains `{names}`, which the handler receives as keyword arguments."""

    method: str
    path: str
    ability: str | None
    handler: Handler
    query: frozenset[str] = frozenset()
    changes_state: bool = False

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


class Api:
    def __init__(self, *, world: World, faults: Faults, routes: list[Route]) -> None:
        self._world = world
        self._faults = faults
        self._routes = routes
        self._limit = RateLimit()
        self._tokens = {token.plain: token for token in world.settings.tokens}

    def answer(self, request: Request) -> Answer:
        headers: dict[str, str] = {}
        try:
            token = self._token(request)
            headers = self._spend(token, request)
            answer = self._routed(request, token=token)
        except Refusal as refused:
            answer = refused.answer
        answer.headers = headers | answer.headers
        return answer

    def _token(self, request: Request) -> Token | None:
        sent = request.headers.get("authorization", "")
        return self._tokens.get(sent.removeprefix("Bearer ")) if sent else None

    def _spend(self, token: Token | None, request: Request) -> dict[str, str]:
        limit = self._world.settings.rate_limit
        if limit is None:
            return {}
        user = token.user if token else request.address
        return self._limit.spend(user=user, limit=limit, now=self._world.clock.now())

    def _routed(self, request: Request, *, token: Token | None) -> Answer:
        path = "/health" if request.path == OLD_HEALTH else request.path.removeprefix(PREFIX)
        for route in self._routes:
            found = route.matches(path)
            if found is not None and self._method_fits(route, request):
                return self._run(route, request, token=token, found=found)
        raise refusal(404, "Not found.", docs="https://coolify.io/docs")

    def _method_fits(self, route: Route, request: Request) -> bool:
        return request.method == route.method or (route.changes_state and request.method == "GET")

    def _run(
        self, route: Route, request: Request, *, token: Token | None, found: dict[str, str]
    ) -> Answer:
        if route.ability is not None:
            self._admit(token, ability=route.ability)
        if request.method != route.method and self._world.settings.at_least("4.2.0"):
            raise refusal(405, "This endpoint has changed to a POST request.")
        known_query(request, allowed=route.query)
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
