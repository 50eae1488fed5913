"""Running work in the background: the task broker, periodic work, the ticker, and waking workers.

botpool.schedule lists the work; nothing here knows it.
"""
