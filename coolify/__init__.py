"""The Coolify client, its call budget and the simulator. Imports core only."""
