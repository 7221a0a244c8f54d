//! What the environment says about a process's runtime.

/// How many bytes of finished calls are kept to run again, under Ray's name; none: the core's default.
pub(super) fn max_lineage_bytes() -> Option<u64> {
    std::env::var("RAY_max_lineage_bytes").ok()?.trim().parse().ok()
}
