"""The receivers, one module or folder for each, and what they share to send JSON over HTTP.

`delivery` decides when and how often they are called.
"""
