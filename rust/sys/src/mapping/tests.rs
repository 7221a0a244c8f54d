use super::*;
use crate::memfd;

fn read(mapping: &Mapping, at: usize) -> u8 {
    assert!(at < mapping.len());
    unsafe { mapping.as_ptr().add(at).read_volatile() }
}

fn write(mapping: &Mapping, at: usize, byte: u8) {
    assert!(at < mapping.len());
    unsafe { mapping.as_ptr().add(at).write_volatile(byte) }
}

#[test]
fn copy_on_write_keeps_its_writes_to_itself() {
    let fd = memfd::create("test", 4 * PAGE as u64).unwrap();
    let shared = Mapping::shared(&fd, 4 * PAGE).unwrap();
    write(&shared, PAGE, 5);
    let private = Mapping::copy_on_write(&fd, PAGE as u64, PAGE).unwrap();
    assert_eq!(read(&private, 0), 5);
    write(&private, 0, 6);
    assert_eq!(read(&shared, PAGE), 5);
    assert_eq!(read(&private, 0), 6);
}

#[test]
fn read_only_sees_the_writes_of_others() {
    let fd = memfd::create("test", 2 * PAGE as u64).unwrap();
    let shared = Mapping::shared(&fd, 2 * PAGE).unwrap();
    let view = Mapping::read_only(&fd, PAGE as u64, PAGE).unwrap();
    write(&shared, PAGE + 3, 9);
    assert_eq!(read(&view, 3), 9);
}

#[test]
fn populate_brings_memory_in_and_keeps_contents() {
    let fd = memfd::create("test", 16 * PAGE as u64).unwrap();
    let shared = Mapping::shared(&fd, 16 * PAGE).unwrap();
    write(&shared, 2 * PAGE, 1);
    shared.populate_write(PAGE..9 * PAGE).unwrap();
    shared.populate_read(PAGE..9 * PAGE).unwrap();
    assert_eq!(memfd::resident(&fd).unwrap(), 8 * PAGE as u64);
    assert_eq!(read(&shared, 2 * PAGE), 1);
    assert!(shared.populate_write(0..17 * PAGE).is_err());
}
