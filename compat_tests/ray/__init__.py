"""Side-by-side cases of the Ray face."""
