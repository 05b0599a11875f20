"""JobManagers, TaskManagers and hosts that are lost.

Memory that ends a process is in `memory`.
"""
