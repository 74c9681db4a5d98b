"""The experiments: their programs, the studies made with them, and what things cost (benchmarks)."""
