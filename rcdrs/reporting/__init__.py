"""From seed-level CSVs to tables; the paper's own values stand in `paper/` for comparison."""
