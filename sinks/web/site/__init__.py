"""The status site: the incident store and its feed, the documents of the JSON API, the pages, and who may read them.

The page of one incident is in the room above, because a replay makes it, too.
"""
