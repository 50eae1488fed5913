"""Signatures that prove a webhook's origin and age to its receiver.

The secret is the SHA-256 of the API key in hexadecimal. A client can compute it and give it to its
receiver without giving away the key, and there is no second secret to manage.
"""

import hashlib
import hmac

SIGNATURE_HEADER = "X-Botpool-Signature"
TIMESTAMP_HEADER = "X-Botpool-Timestamp"


def sign(body: bytes, *, secret: str, timestamp: int) -> str:
    message = f"{timestamp}.".encode() + body
    return "sha256=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()
