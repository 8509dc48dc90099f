"""A real node on this machine: kubelet, containerd, runc, kube-proxy and CoreDNS.

Everything it starts lives in network, mount and process namespaces of its own: the end of the
namespaces is the end of all processes, mounts, bridges and firewall rules.
"""
