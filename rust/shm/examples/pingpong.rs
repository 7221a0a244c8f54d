//! Two processes through shared memory: round trip, pipelined rate, and put throughput.
//!
//! `cargo run --release -p raymesh-shm --example pingpong [rounds]`
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::error::Error;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raymesh_shm::{Endpoint, Heap, Segment, Shape, WaitOutcome};
use raymesh_wire::control::Extent;
use raymesh_wire::{HostId, ProcId};

const HOST: HostId = HostId(0);
const FD: &str = "PINGPONG_FD";
const STOP: &[u8] = b"stop";
/// The echoing side answers each of these by itself.
const PING: u8 = 1;
/// The echoing side only counts these.
const COUNT: u8 = 2;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn driver() -> ProcId {
    ProcId::new(HOST, 1, 1)
}

fn worker() -> ProcId {
    ProcId::new(HOST, 1, 2)
}

fn main() -> Result<()> {
    if let Ok(fd) = std::env::var(FD) {
        return echo(fd.parse()?);
    }
    let rounds = std::env::args().nth(1).map_or(Ok(300_000), |arg| arg.parse::<u32>())?;
    let segment = Segment::create(Shape { host: HOST, slots: 64, arena: 1 << 30 })?;
    segment.open_mailbox(driver())?;
    segment.open_mailbox(worker())?;
    raymesh_sys::fd::set_inheritable(segment.fd(), true)?;
    let fd = segment.fd().as_raw_fd().to_string();
    let mut child = Command::new(std::env::current_exe()?).env(FD, fd).spawn()?;
    let endpoint = Endpoint::new(Arc::clone(&segment), driver());

    println!("{} cores", raymesh_sys::online_cpus());
    for len in [16, 200, 4096] {
        round_trips(&endpoint, rounds / 3, len);
    }
    for len in [16, 200, 4096] {
        pipelined(&endpoint, rounds * 3, len);
    }
    endpoint.send(worker(), STOP);
    child.wait()?;
    puts(&segment)
}

fn echo(fd: i32) -> Result<()> {
    let segment = Segment::attach(raymesh_sys::fd::from_inherited(fd)?)?;
    let endpoint = Endpoint::new(segment, worker());
    let mut count = 0u32;
    let mut stop = false;
    while !stop {
        let attend = endpoint.attend();
        attend.wait(None);
        endpoint.try_drain(&mut |from, message| match message[0] {
            PING => {
                endpoint.send(from, &message);
            }
            COUNT => {
                count += 1;
                if message[1] == 1 {
                    endpoint.send(from, &count.to_le_bytes());
                    count = 0;
                }
            }
            _ => stop = true,
        });
    }
    Ok(())
}

/// Waits for one message.
fn await_one(endpoint: &Endpoint) {
    let attend = endpoint.attend();
    let mut got = 0;
    while got == 0 {
        if attend.wait(Some(Duration::from_secs(20))) == WaitOutcome::TimedOut {
            println!("no answer");
            std::process::exit(1);
        }
        got = endpoint.try_drain(&mut |_, _| {}).unwrap_or(0);
    }
}

fn round_trips(endpoint: &Endpoint, rounds: u32, len: usize) {
    let mut message = vec![0; len];
    message[0] = PING;
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            endpoint.send(worker(), &message);
            await_one(endpoint);
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_nanos() as f64 / 1e3;
    let mean = times.iter().sum::<Duration>().as_nanos() as f64 / 1e3 / f64::from(rounds);
    println!(
        "round trip, {len:5} bytes: mean {mean:6.2} us, p50 {:6.2}, p99 {:6.2}, p99.9 {:7.2}",
        at(0.5),
        at(0.99),
        at(0.999)
    );
}

fn pipelined(endpoint: &Endpoint, rounds: u32, len: usize) {
    let mut message = vec![0; len];
    message[0] = COUNT;
    let start = Instant::now();
    let mut most = 0;
    for n in 1..=rounds {
        message[1] = u8::from(n == rounds);
        endpoint.send(worker(), &message);
        if n % 1024 == 0 {
            most = most.max(endpoint.outbox_bytes());
            endpoint.try_drain(&mut |_, _| {});
        }
    }
    await_one(endpoint);
    let rate = f64::from(rounds) / start.elapsed().as_secs_f64();
    println!("pipelined,  {len:5} bytes: {rate:10.0} messages/s, outbox up to {} KiB", most >> 10);
}

fn puts(segment: &Segment) -> Result<()> {
    const LEN: u64 = 100 << 20;
    let data = vec![1u8; LEN as usize];
    let mut heap = Heap::new(driver());
    heap.add_extent(Extent { offset: 0, len: LEN });
    for pass in ["fresh (populated)", "recycled", "recycled"] {
        let start = Instant::now();
        let allocation = heap.alloc_tracked(LEN).ok_or("heap is full")?;
        if let Some(cold) = allocation.cold {
            segment.populate(cold)?;
        }
        segment.write_block(&allocation.block, |bytes| bytes.copy_from_slice(&data))?;
        let rate = LEN as f64 / start.elapsed().as_secs_f64() / 1e9;
        println!("put of 100 MiB, {pass}: {rate:.1} GB/s");
        heap.free(&allocation.block);
    }
    Ok(())
}
