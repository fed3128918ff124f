"""What is evaluated side by side: one method a file (docs/evaluation.md)."""
