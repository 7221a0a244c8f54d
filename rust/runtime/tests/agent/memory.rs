//! Extents of the object arena on request.

use raymesh_wire::control::{Extent, FromAgent, HeapFull, ToAgent};
use raymesh_wire::{Message, RequestId};

use crate::support::{Driver, config};

fn grow(driver: &mut Driver, number: u64, bytes: u64) -> Result<Extent, HeapFull> {
    let request = RequestId(number);
    driver.send(driver.agent.controller(), &Message::ToAgent(ToAgent::GrowHeap { request, bytes }));
    driver.expect("memory", |_, message| match message {
        Message::FromAgent(FromAgent::HeapGrown { request: answered, grown }) if *answered == request => {
            Some(*grown)
        }
        _ => None,
    })
}

#[test]
fn memory_that_is_given_back_goes_back_to_the_system() {
    let mut driver = Driver::start(config());
    let extent = grow(&mut driver, 1, 32 << 20).unwrap();
    let segment = driver.agent.segment();
    segment.populate(extent).unwrap();
    assert!(segment.resident().unwrap() >= 32 << 20);
    let shrink = ToAgent::ShrinkHeap { extents: vec![extent] };
    driver.send(driver.agent.controller(), &Message::ToAgent(shrink));
    let start = std::time::Instant::now();
    while segment.resident().unwrap() >= 32 << 20 {
        assert!(start.elapsed() < crate::support::WATCHDOG);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    driver.stop();
}

#[test]
fn a_full_store_asks_for_what_is_free_and_then_says_how_full_it_is() {
    let mut driver = Driver::start(config());
    let extent = grow(&mut driver, 1, 48 << 20).unwrap();
    let agent = driver.agent.controller();
    let wish = ToAgent::GrowHeap { request: RequestId(2), bytes: 32 << 20 };
    driver.send(agent, &Message::ToAgent(wish));
    driver.expect("the question", |_, message| {
        matches!(message, Message::FromAgent(FromAgent::TrimHeap)).then_some(())
    });
    driver.send(agent, &Message::ToAgent(ToAgent::ShrinkHeap { extents: vec![extent] }));
    let grown = driver.expect("memory", |_, message| match message {
        Message::FromAgent(FromAgent::HeapGrown { request: RequestId(2), grown }) => Some(*grown),
        _ => None,
    });
    assert!(grown.is_ok());
    let full = grow(&mut driver, 3, 40 << 20).unwrap_err();
    assert_eq!(full, HeapFull { wanted: 40 << 20, free: 32 << 20, capacity: 64 << 20 });
    let never = grow(&mut driver, 4, 65 << 20).unwrap_err();
    assert_eq!(never.capacity, 64 << 20);
    driver.stop();
}
