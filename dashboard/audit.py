"""What operators did, written down with who and why."""

from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.models import User as DjangoUser

from dashboard.models import OperatorAction

User = DjangoUser | AnonymousUser


def actor_of(user: User) -> str:
    """How a user is named in the history of slots and bots."""
    return f"user:{user.get_username()}"


def record_action(
    user: User, *, action: str, target: str, reason: str, done: bool, outcome: str = ""
) -> None:
    assert isinstance(user, DjangoUser), "nobody acts without a login"
    OperatorAction.objects.create(
        user=user,
        username=user.get_username(),
        action=action,
        target=target,
        reason=reason,
        done=done,
        outcome=outcome,
    )
