"""Records and event-time watermarks that move, or do not move, through the tasks of a job."""
