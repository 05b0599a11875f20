"""What `bin/setup` and the image run to fetch Python packages, Java and jars.

Standard library only: it runs before anything is installed.
"""
