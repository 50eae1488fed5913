"""How a receiver knows that a webhook is from us, and new.

The secret is the SHA-256 of the API key in hexadecimal: the client can compute it and hand it to
its receiver without handing over the key, and there is no second secret to look after.
"""

import hashlib
import hmac

SIGNATURE_HEADER = "X-Botpool-Signature"
TIMESTAMP_HEADER = "X-Botpool-Timestamp"


def sign(body: bytes, *, secret: str, timestamp: int) -> str:
    message = f"{timestamp}.".encode() + body
    return "sha256=" + hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()
