"""The configuration file, what of it is in force, and how it changes while the job runs."""
