"""The pods' network: bridge, addresses, NAT, names, node ports."""
