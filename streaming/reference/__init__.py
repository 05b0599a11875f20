"""Generates reference files from the models: configuration page, file and JSON schema, metrics page.

The job does not use them at run time.
"""
