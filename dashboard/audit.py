"""The audit of operator actions: who did what, and why."""

from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.models import User as DjangoUser

from dashboard.models import OperatorAction

User = DjangoUser | AnonymousUser


def actor_of(user: User) -> str:
    """The user's name in the history of slots and bots."""
    return f"user:{user.get_username()}"


def record_action(
    user: User, *, action: str, target: str, reason: str, done: bool, outcome: str = ""
) -> None:
    assert isinstance(user, DjangoUser), "actions need a logged-in user"
    OperatorAction.objects.create(
        user=user,
        username=user.get_username(),
        action=action,
        target=target,
        reason=reason,
        done=done,
        outcome=outcome,
    )
