"""The Transformer of "Attention Is All You Need": train it, run it, measure it."""
