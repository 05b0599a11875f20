"""Commands about incidents that flinkwatch has reported. Commands that replay, configure or run are one folder up."""
