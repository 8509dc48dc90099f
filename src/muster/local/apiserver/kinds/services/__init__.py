"""Services, their addresses and ports, and the endpoints behind them."""
