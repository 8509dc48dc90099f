"""The pods' network: bridge, addresses, NAT, names, services, node ports.

Kept apart because `bridge` is about links and addresses: service_rules, the virtual addresses of
services as rules of the packet filter.
"""
