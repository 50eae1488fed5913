"""The bots that run in simulated containers and call Botpool back."""
