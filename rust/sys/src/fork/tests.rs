use super::*;

#[test]
fn a_forked_child_is_told_apart() {
    let mark = ForkMark::new().unwrap();
    assert!(mark.is_here());
    // SAFETY: the child makes no call but `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(mark.is_here())) };
    }
    let mut status = -1;
    // SAFETY: `status` is writable.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert!(mark.is_here());
}
