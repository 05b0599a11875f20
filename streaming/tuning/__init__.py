"""What another configuration would have said: `flinkwatch tune`."""
