//! Modules imported ahead.

use crate::support::{Driver, config, set};

fn write_module(name: &str, body: &str) -> String {
    let folder = std::env::temp_dir().join(format!("raymesh-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.py")), body).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// Leases workers until one has the modules, and answers which.
fn wait_imported(driver: &mut Driver, wanted: &str) {
    let start = std::time::Instant::now();
    loop {
        let worker = driver.lease();
        let line =
            driver.expect_line("imports", |line| line.proc == worker && line.text.starts_with("imported:"));
        if line.text == format!("imported:{wanted}") {
            return;
        }
        assert!(start.elapsed() < crate::support::WATCHDOG, "{}", line.text);
        driver.command(worker, "exit 0");
        driver.expect_death(worker);
    }
}

#[test]
fn later_workers_have_the_modules_and_bad_ones_are_left_out() {
    let mut config = config();
    let threads =
        "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()";
    let bad = [
        ("test_raises", "raise ValueError('no')"),
        ("test_threads", threads),
        ("test_exits", "import os; os._exit(1)"),
    ];
    let good = ("test_good", "print('must not be shown')");
    for (name, body) in bad.into_iter().chain([good]) {
        config.sys_path.push(write_module(name, body));
        config.preload.push(name.to_owned());
    }
    let modules = config.preload.join(",");
    set(&mut config, "TEST_MODULES", modules);
    let mut driver = Driver::start(config);
    wait_imported(&mut driver, "test_good");
    let lines = driver.stop();
    assert!(lines.iter().all(|line| line.text != "must not be shown"), "{lines:?}");
}

#[test]
fn the_switch_turns_it_off() {
    let mut config = config();
    config.sys_path.push(write_module("test_off", "open('/dev/null')"));
    config.preload.push("test_off".to_owned());
    set(&mut config, "TEST_MODULES", "test_off");
    set(&mut config, "RAYMESH_PRELOAD", "0");
    let mut driver = Driver::start(config);
    for _ in 0..2 {
        wait_imported(&mut driver, "");
        driver.expect_line("hello", |line| line.text.starts_with("random:"));
    }
    driver.stop();
}
