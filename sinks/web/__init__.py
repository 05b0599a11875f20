"""What browsers and programs read about incidents: HTML pages and JSON.

Rendering is pure: transitions in, text out. Kafka, delivery and the metrics of Prometheus are elsewhere. `site`
serves the pages over HTTP.
"""
