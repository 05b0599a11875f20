"""What a receiver of notifications is, and the wording that all of them share.

The receivers are in `integrations`; who calls them is in `delivery`.
"""
