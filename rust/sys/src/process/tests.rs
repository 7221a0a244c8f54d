use super::*;

#[test]
fn pidfd_kills_the_process_it_names() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pidfd = pidfd_open(child.id()).unwrap();
    pidfd_kill(&pidfd).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    assert!(pidfd_kill(&pidfd).is_err());
    assert!(pidfd_open(0).is_err());
    assert!(pidfd_open(u32::MAX).is_err());
}

#[test]
fn name_is_cut_not_refused() {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set_name("raymesh-a-very-long-name").unwrap();
            assert_eq!(rustix::thread::name().unwrap().to_str().unwrap(), "raymesh-a-very-");
        });
    });
}
