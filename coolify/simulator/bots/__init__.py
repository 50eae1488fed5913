"""The simulated bots: they run in simulated containers and call Botpool's API."""
