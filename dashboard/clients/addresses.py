"""Who sees the whole address of a webhook: its path or query can be a secret."""

from bots.masking import host_of


def webhook_address(address: str, may_administer: bool) -> str:
    """The whole address for administrators, the host for all others."""
    return address if may_administer else host_of(address)
