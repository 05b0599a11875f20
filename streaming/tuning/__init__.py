"""`flinkwatch tune`: compares the incidents that two configurations report for the same recordings."""
