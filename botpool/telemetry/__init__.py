"""Watching Botpool from outside: metrics, counters, samples, retention, health, doctor."""
