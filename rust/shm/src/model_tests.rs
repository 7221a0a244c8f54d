//! Model checks of the protocols (loom).
