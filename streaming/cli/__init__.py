"""Commands of the command line, one module for each command or group. What they do is in the other folders."""
