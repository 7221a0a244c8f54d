//! This program as a worker (started by `tests/python`), and as a driver that is going to be killed.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use raymesh_shm::{Endpoint, Segment};
use raymesh_sys::fd::from_inherited;
use raymesh_wire::control::ToAgent;
use raymesh_wire::{FromController, Message, ProcId, Value, decode, encode};

use crate::support::{Driver, config};

/// Says hello and obeys until told to end. Calls carry commands in their arguments.
#[test]
fn worker() {
    let Ok(given) = std::env::var("TEST_WORKER") else { return };
    let numbers: Vec<u64> = given.split(' ').map(|word| word.parse().unwrap()).collect();
    let me = ProcId::from_u64(numbers[0]);
    let segment = Segment::attach(from_inherited(numbers[1] as i32).unwrap()).unwrap();
    let endpoint = Endpoint::new(segment, me);
    endpoint.set_agent_eventfd(from_inherited(numbers[2] as i32).unwrap());
    let agent = ProcId::agent(me.host());
    let say = |to: ProcId, message: &Message| {
        let mut bytes = Vec::new();
        encode(message, &mut bytes);
        endpoint.send(to, &bytes);
    };
    say(agent, &Message::ToAgent(ToAgent::Hello { pid: std::process::id() }));
    loop {
        let mut mail = Vec::new();
        endpoint.try_drain(&mut |_, bytes| mail.push(decode(bytes).unwrap()));
        for message in mail {
            match message {
                Message::FromController(FromController::Exit { .. }) => {
                    println!("told to exit");
                    std::process::exit(0);
                }
                Message::Call(call) => {
                    let Value::Inline(body) = call.args else { continue };
                    endpoint.begin_call(call.task);
                    obey(std::str::from_utf8(&body).unwrap());
                    endpoint.end_call(call.task);
                }
                _ => {}
            }
        }
        endpoint.attend().wait(Some(Duration::from_secs(5)));
    }
}

fn obey(command: &str) {
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    match verb {
        "print" => println!("{rest}"),
        "abort" => {
            print!("last words");
            std::io::stdout().flush().unwrap();
            std::process::abort();
        }
        "exit" => std::process::exit(rest.parse().unwrap()),
        // A child, a grandchild, and one with a session of its own.
        "spawn" => {
            let script = format!("sleep {rest} & setsid sleep {rest} & sleep {rest}");
            Command::new("sh").arg("-c").arg(script).spawn().unwrap();
        }
        "hang" => loop {
            std::thread::park();
        },
        _ => panic!("unknown command {command}"),
    }
}

/// A driver that starts everything and waits to be killed.
#[test]
fn driver() {
    let Ok(mark) = std::env::var("TEST_DRIVER") else { return };
    let mut config = config();
    if mark.ends_with(".5") {
        config.preload = vec!["numpy".to_owned(), "torch".to_owned()];
    }
    let mut driver = Driver::start(config);
    let worker = driver.lease();
    driver.command(worker, &format!("spawn {mark}"));
    println!("ready");
    loop {
        std::thread::park();
    }
}
