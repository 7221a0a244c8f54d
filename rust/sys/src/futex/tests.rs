use super::*;
use std::sync::atomic::Ordering;

#[test]
fn wait_returns_at_once_when_the_word_has_changed() {
    let word = AtomicU32::new(1);
    assert_eq!(wait(&word, 0, None).unwrap(), Woken::Changed);
}

#[test]
fn wait_times_out_relative_and_absolute() {
    let word = AtomicU32::new(0);
    assert_eq!(wait(&word, 0, Some(Duration::from_millis(1))).unwrap(), Woken::TimedOut);
    assert_eq!(wait_until(&word, 0, now() + Duration::from_millis(1)).unwrap(), Woken::TimedOut);
    assert_eq!(wait_until(&word, 0, Duration::ZERO).unwrap(), Woken::TimedOut);
}

#[test]
fn wake_all_reaches_every_waiter() {
    let word = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while word.load(Ordering::Acquire) == 0 {
                    wait(&word, 0, Some(Duration::from_secs(20))).unwrap();
                }
            });
        }
        word.store(1, Ordering::Release);
        wake_all(&word);
    });
}
