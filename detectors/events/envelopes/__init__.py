"""The documents in which log shippers and metric agents send lines and samples. `layouts` reads the line itself."""
