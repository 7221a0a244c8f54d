"""The side-by-side suite, fault tests and benchmark of raymesh."""
