use super::*;

#[test]
fn size_is_sealed() {
    let fd = create("test", 8192).unwrap();
    assert_eq!(len(&fd).unwrap(), 8192);
    assert!(rustix::fs::ftruncate(&fd, 4096).is_err());
    assert!(rustix::fs::ftruncate(&fd, 16384).is_err());
}

#[test]
fn punched_pages_leave_memory_and_read_as_zero() {
    let fd = create("test", 8192).unwrap();
    assert_eq!(resident(&fd).unwrap(), 0);
    rustix::io::pwrite(&fd, &[7; 8192], 0).unwrap();
    assert_eq!(resident(&fd).unwrap(), 8192);
    punch_hole(&fd, 0, 4096).unwrap();
    assert_eq!(resident(&fd).unwrap(), 4096);
    let mut byte = [1];
    rustix::io::pread(&fd, &mut byte, 0).unwrap();
    assert_eq!(byte, [0]);
}
