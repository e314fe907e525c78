"""What to do with a running deployment when its tenants change: stay, or move and to what."""
