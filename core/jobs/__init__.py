"""Running work in the background: the task broker, periodic work, the ticker, and waking workers.

What the work is stands in botpool.schedule; nothing here knows it.
"""
