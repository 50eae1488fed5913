"""24 hours, seconds and the zone. static/botpool/times.js shows them in the reader's zone."""

DATETIME_FORMAT = "Y-m-d H:i:s T"
