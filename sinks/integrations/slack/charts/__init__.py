"""Charts for Slack, drawn in a separate process and uploaded by the client.

`thread` decides which incidents get a chart.
"""
