"""What is known of JobManagers, TaskManagers and their pods: how they end, and which can be believed about others.

The kinds of incident about them are in `kinds/processes`.
"""
