"""Services, their addresses and ports, the endpoints behind them, and ingresses."""
