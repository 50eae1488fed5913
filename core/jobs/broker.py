"""The task queue in PostgreSQL, timed by the database's clock.

django-q2's own broker stamps and reads tasks by the clocks of the hosts: a worker whose clock is
behind that of the ticker would leave its tasks lying. Taking a task is one statement, in which
workers pass over what another one is taking at this moment.
"""

from time import sleep

from django.db import connections
from django.db.models.functions import Now
from django_q.brokers.orm import ORM
from django_q.conf import Conf

_TAKE = """
UPDATE django_q_ormq SET lock = clock_timestamp() + make_interval(secs => %(retry)s)
WHERE id = ANY(ARRAY(
    SELECT id FROM django_q_ormq
    WHERE key = %(key)s AND lock < clock_timestamp()
    ORDER BY id
    LIMIT %(bulk)s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, payload
"""


class DatabaseBroker(ORM):
    def queue_size(self) -> int:
        count: int = self.get_connection().filter(key=self.list_key, lock__lte=Now()).count()
        return count

    def lock_size(self) -> int:
        count: int = self.get_connection().filter(key=self.list_key, lock__gt=Now()).count()
        return count

    def enqueue(self, task: str) -> int:
        key = self.list_key or Conf.CLUSTER_NAME
        number: int = self.get_connection().create(key=key, payload=task, lock=Now()).pk
        return number

    def dequeue(self) -> list[tuple[int, str]] | None:
        self.get_connection()  # closes a connection that has gone bad
        with connections[Conf.ORM].cursor() as cursor:
            cursor.execute(_TAKE, {"retry": Conf.RETRY, "key": self.list_key, "bulk": Conf.BULK})
            tasks: list[tuple[int, str]] = cursor.fetchall()
        if not tasks:
            sleep(Conf.POLL)
            return None
        return tasks
