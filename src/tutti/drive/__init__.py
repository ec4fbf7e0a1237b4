"""What every world shares: the loop, backend and clock, estimates from history, the ledger, forecasts."""
