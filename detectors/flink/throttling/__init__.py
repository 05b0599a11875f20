"""What processes are refused from outside: CPU by Kubernetes, writes by RocksDB. And which pod is which process."""
