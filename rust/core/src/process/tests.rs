//! Two or more processes with a perfect network between them.
