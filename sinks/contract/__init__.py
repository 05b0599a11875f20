"""What a receiver of notifications is, what it is given and what it answers, and the wording that all receivers share.

The receivers' sinks are in `integrations`; `delivery` calls them.
"""
