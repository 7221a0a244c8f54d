use super::*;
use std::os::fd::AsRawFd;

#[test]
fn inherited_number_is_duplicated_and_a_closed_one_refused() {
    let fd = eventfd().unwrap();
    let twin = from_inherited(fd.as_raw_fd()).unwrap();
    eventfd_signal(&fd);
    assert!(eventfd_clear(&twin));
    assert!(!eventfd_clear(&fd));
    assert!(from_inherited(-1).is_err());
    assert!(from_inherited(1 << 20).is_err());
}
