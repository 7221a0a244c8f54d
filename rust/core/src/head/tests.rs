use raymesh_wire::status::HostEnd;

use super::*;

fn lose(books: &mut Books<()>, controller: &mut Controller, number: u64, host: HostId) {
    books.decide(
        number,
        1,
        None,
        Event::HostLost { host, end: HostEnd::unexpected("its process has ended") },
        controller,
    );
}

#[test]
fn a_head_that_is_lost_before_it_has_written_the_loss_of_the_one_before_it_is_not_forgotten() {
    let mut books = Books::<()>::new(HostId(1));
    assert_eq!(books.take_over(), [HostId(1)]);
    // The second head is lost at once: its journal begins with what it took over, and has nothing after that.
    let mut books = Books::<()>::left_by(books.state);
    assert_eq!(books.take_over(), [HostId(1), HostId(2)]);
    assert_eq!(books.me(), HostId(3));
    let mut controller = Controller::new();
    lose(&mut books, &mut controller, 1, HostId(1));
    let mut books = Books::<()>::left_by(books.state);
    assert_eq!(books.take_over(), [HostId(2), HostId(3)], "the loss of the first is written");
}

#[test]
fn nothing_is_due_before_what_led_to_it_is_written() {
    let mut books = Books::<()>::new(HostId(1));
    let mut controller = Controller::new();
    books.admit(1, (), HostId(2), None);
    lose(&mut books, &mut controller, 2, HostId(2));
    assert!(books.next_due(0).is_none());
    assert!(matches!(books.next_due(1), Some((None, due)) if matches!(due[..], [Due::Admit { .. }])));
    assert!(books.next_due(1).is_none());
    assert!(matches!(books.next_due(2), Some((None, due)) if matches!(due[..], [Due::Gone(HostId(2))])));
}

#[test]
fn a_host_is_refused_before_anybody_is_told_of_the_deaths_there() {
    use raymesh_wire::ToController;
    use raymesh_wire::control::FromHost;
    let (mut books, mut controller) = (Books::<()>::new(HostId(1)), Controller::new());
    let proc = |host| raymesh_wire::ProcId::new(HostId(host), 1, 1);
    for host in [2, 3] {
        books.take_in(HostId(host), None);
        let joined = FromHost::Joined {
            name: String::new(),
            total: raymesh_wire::ResourceSet::new(),
            labels: Vec::new(),
            store_capacity: 0,
        };
        let started = FromHost::ProcStarted { proc: proc(host), pid: 1, driver: false };
        for message in [joined, started] {
            let event = Event::FromHost { host: HostId(host), message };
            books.decide(0, 1, None, event, &mut controller);
        }
    }
    let watch = ToController::Watch { proc: proc(3) };
    books.decide(0, 1, None, Event::Message { from: proc(2), message: watch }, &mut controller);
    while books.next_due(0).is_some() {}
    lose(&mut books, &mut controller, 0, HostId(3));
    let (_, due) = books.next_due(0).unwrap();
    assert!(matches!(due[..], [Due::Gone(HostId(3)), Due::Release(HostId(2), _), ..]), "{due:?}");
}
