"""`manage.py setup`: ask for what is missing, test it against Coolify, write `.env`.

It needs no database. The rules about values are those of `botpool.settings`.
"""
