"""What is generated from the models: the configuration's page, file and JSON schema, the page of metrics.

Nothing at run time reads it.
"""
