//! Cores at this process's disposal, and the pause between two polls.

/// Cores that this process may use: its scheduling affinity, cut by a cgroup's CPU quota. At least 1.
#[must_use]
pub fn online_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Tells the core that this is a spin loop (saves power, and lets a sibling hyper-thread run).
#[inline]
pub fn spin_hint() {
    std::hint::spin_loop();
}
