"""How secrets are recognised in a text, and where they end. `bots.masking` hides them."""
