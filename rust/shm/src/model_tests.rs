//! Model checks of the protocols: loom runs every interleaving, with weak memory. A lost wake-up
//! shows as a deadlock.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p raymesh-shm --lib`

use loom::sync::atomic::AtomicBool;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use crate::doorbell::{Doorbell, Wake};
use crate::lock::OwnerLock;
use crate::starved::Starved;
use crate::sync::{AtomicU32, Ordering, fence};

/// A futex: comparing and going to sleep are one step.
#[derive(Default)]
struct Futex {
    queue: Mutex<()>,
    wakeup: Condvar,
}

impl Futex {
    fn wait(&self, word: &AtomicU32, expected: u32) {
        let guard = self.queue.lock().unwrap();
        if word.load(Ordering::SeqCst) == expected {
            drop(self.wakeup.wait(guard).unwrap());
        }
    }

    fn wake_all(&self) {
        let _guard = self.queue.lock().unwrap();
        self.wakeup.notify_all();
    }
}

/// A mailbox whose ring is a count of messages.
#[derive(Default)]
struct Mailbox {
    bell: Doorbell,
    tail: AtomicU32,
    head: AtomicU32,
    draining: AtomicBool,
    kicked: AtomicBool,
    main: Futex,
    helper: Futex,
}

impl Mailbox {
    fn wake(&self, whom: Wake) {
        match whom {
            Wake::Nobody | Wake::Event => {}
            Wake::Main => self.main.wake_all(),
            Wake::Helper => self.helper.wake_all(),
        }
    }

    fn send(&self) {
        self.tail.fetch_add(1, Ordering::Release);
        self.wake(self.bell.ring(false));
    }

    fn has_mail(&self) -> bool {
        self.tail.load(Ordering::Acquire) != self.head.load(Ordering::Relaxed)
    }

    fn has_loose_mail(&self) -> bool {
        self.has_mail() && !self.draining.load(Ordering::SeqCst)
    }

    fn ring_myself_if_mail(&self) {
        fence(Ordering::SeqCst);
        if self.has_loose_mail() {
            self.wake(self.bell.ring(false));
        }
    }

    fn try_drain(&self) -> u32 {
        if self.draining.compare_exchange(false, true, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return 0;
        }
        let tail = self.tail.load(Ordering::Acquire);
        let count = tail - self.head.load(Ordering::Relaxed);
        self.head.store(tail, Ordering::Release);
        self.draining.store(false, Ordering::SeqCst);
        self.ring_myself_if_mail();
        count
    }

    /// As `Attend::wait`, without the spin.
    fn wait(&self, found: impl Fn(&Self) -> bool) {
        loop {
            if found(self) {
                return;
            }
            let word = self.bell.park_main();
            if found(self) {
                self.bell.unpark_main();
                return;
            }
            self.main.wait(self.bell.main_word(), word);
        }
    }

    fn leave(&self) {
        if self.bell.leave() {
            self.ring_myself_if_mail();
        }
    }

    /// As `Endpoint::helper_wait`, without grace.
    fn helper_wait(&self) {
        loop {
            let word = self.bell.helper_ticket();
            self.bell.arm_helper();
            if self.has_loose_mail() && !self.bell.is_attended() {
                self.bell.disarm_helper();
                return;
            }
            self.helper.wait(self.bell.helper_word(), word);
        }
    }
}

fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

#[test]
fn a_parked_receiver_misses_no_mail() {
    model(|| {
        let mailbox = Arc::new(Mailbox::default());
        let senders: Vec<_> = (0..2)
            .map(|_| {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || mailbox.send())
            })
            .collect();
        mailbox.bell.enter();
        let mut got = 0;
        while got < 2 {
            mailbox.wait(Mailbox::has_loose_mail);
            got += mailbox.try_drain();
        }
        mailbox.bell.leave();
        for sender in senders {
            sender.join().unwrap();
        }
    });
}

#[test]
fn mail_that_comes_while_main_leaves_reaches_the_helper() {
    model(|| {
        let mailbox = Arc::new(Mailbox::default());
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.send())
        };
        let main = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                mailbox.bell.enter();
                mailbox.leave();
            })
        };
        mailbox.helper_wait();
        assert_eq!(mailbox.try_drain(), 1);
        sender.join().unwrap();
        main.join().unwrap();
    });
}

#[test]
fn mail_that_comes_while_another_thread_drains_is_not_left_lying() {
    model(|| {
        let mailbox = Arc::new(Mailbox::default());
        mailbox.send();
        let helper = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                let count = mailbox.try_drain();
                // As the runtime does: what it took may be what others wait for.
                mailbox.wake(mailbox.bell.ring_main());
                count
            })
        };
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.send())
        };
        mailbox.bell.enter();
        // Whoever drains, all mail is taken without anything more happening.
        mailbox.wait(|mailbox| mailbox.has_loose_mail() || mailbox.head.load(Ordering::Acquire) == 2);
        let mine = mailbox.try_drain();
        let theirs = helper.join().unwrap();
        sender.join().unwrap();
        assert_eq!(mine + theirs + mailbox.try_drain(), 2);
        mailbox.bell.leave();
    });
}

#[test]
fn a_kick_wakes_a_parked_thread_beside_mail() {
    model(|| {
        let mailbox = Arc::new(Mailbox::default());
        let kicker = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                mailbox.kicked.store(true, Ordering::SeqCst);
                mailbox.wake(mailbox.bell.ring_main());
            })
        };
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.send())
        };
        mailbox.bell.enter();
        mailbox.wait(|mailbox| mailbox.kicked.load(Ordering::SeqCst));
        mailbox.wait(Mailbox::has_loose_mail);
        mailbox.bell.leave();
        kicker.join().unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn a_thread_that_leaves_does_not_take_the_wake_up_of_another() {
    model(|| {
        let mailbox = Arc::new(Mailbox::default());
        let other = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || {
                mailbox.bell.enter();
                // Parks, finds its wish fulfilled, goes.
                mailbox.bell.park_main();
                mailbox.bell.unpark_main();
                mailbox.leave();
            })
        };
        let sender = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.send())
        };
        mailbox.bell.enter();
        mailbox.wait(Mailbox::has_loose_mail);
        mailbox.bell.leave();
        other.join().unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn a_starved_sender_learns_of_room() {
    model(|| {
        let sender = Arc::new(Mailbox::default());
        let starved = Arc::new(Starved::new());
        let room = Arc::new(AtomicU32::new(0));
        let receiver = {
            let (sender, starved, room) = (Arc::clone(&sender), Arc::clone(&starved), Arc::clone(&room));
            thread::spawn(move || {
                room.store(1, Ordering::Release);
                fence(Ordering::SeqCst);
                if !starved.is_empty() {
                    starved.take(|slot| {
                        assert_eq!(slot, 5);
                        sender.send();
                    });
                }
            })
        };
        starved.set(5);
        fence(Ordering::SeqCst);
        if room.load(Ordering::Acquire) == 0 {
            sender.bell.enter();
            sender.wait(Mailbox::has_loose_mail);
            assert_eq!(room.load(Ordering::Acquire), 1);
            sender.bell.leave();
        }
        receiver.join().unwrap();
    });
}

#[test]
fn a_sender_that_found_the_lock_taken_is_woken_by_its_owner() {
    model(|| {
        let sender = Arc::new(Mailbox::default());
        let starved = Arc::new(Starved::new());
        let lock = Arc::new(OwnerLock::default());
        let owner = {
            let (sender, starved, lock) = (Arc::clone(&sender), Arc::clone(&starved), Arc::clone(&lock));
            thread::spawn(move || {
                if lock.try_lock(1, 0) && lock.unlock() {
                    starved.take(|_| sender.send());
                }
            })
        };
        if !lock.try_lock(5, 0) {
            starved.set(5);
            if !lock.lock_or_mark(5) {
                sender.bell.enter();
                sender.wait(Mailbox::has_loose_mail);
                sender.bell.leave();
                assert!(lock.try_lock(5, 0));
            }
        }
        let marked = lock.unlock();
        assert!(!marked);
        owner.join().unwrap();
    });
}
