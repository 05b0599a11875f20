"""Jobs that fail, restart again and again, or cannot be restored or deployed.

Jobs that run and make too little progress are in `data`.
"""
