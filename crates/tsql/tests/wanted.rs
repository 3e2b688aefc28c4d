//! WITH ROLLBACK beside those who come: whoever ends the sessions of a database gets it before others do.

mod common;

use common::{Client, Server, errors};
use daruma_base::Clock;
use daruma_base::cancel::CancelReason;
use daruma_tsql::instance::LoginInfo;
use daruma_tsql::messages;
use daruma_tsql::session::{RequestEnd, Session};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    static WORK: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// A clock on which a thread that sleeps does something else meanwhile.
struct Meanwhile(Arc<dyn Clock>);

impl Clock for Meanwhile {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn utc_100ns(&self) -> i64 {
        self.0.utc_100ns()
    }

    fn local_offset_minutes(&self) -> i16 {
        self.0.local_offset_minutes()
    }

    fn sleep(&self, duration: Duration) {
        if let Some(mut work) = WORK.take() {
            work();
            WORK.set(Some(work));
        }
        self.0.sleep(duration);
    }
}

/// Runs a statement, and `work` whenever it sleeps.
fn meanwhile(client: &mut Client, text: &str, work: impl FnMut() + 'static) -> String {
    WORK.set(Some(Box::new(work)));
    let out = client.run(text);
    drop(WORK.take());
    out
}

fn server() -> Rc<Server> {
    let server = Server::with_clock(|clock| Arc::new(Meanwhile(clock)));
    server.set_up(&["CREATE DATABASE d", "USE d; CREATE TABLE dbo.t (v int)"]);
    Rc::new(server)
}

/// A session that works in `d` from outside of it, if it gets in at once; and the errors of that.
fn worker(server: &Server) -> (Client, Vec<i32>) {
    let mut client = server.connect();
    client.done("SET LOCK_TIMEOUT 0; BEGIN TRAN");
    let out = client.run("INSERT d.dbo.t VALUES (1)");
    (client, errors(&out))
}

#[test]
fn who_ends_the_others_is_not_kept_out_by_those_who_come() {
    for (termination, some_come) in [("IMMEDIATE", false), ("AFTER 1 SECONDS", true)] {
        let server = server();
        let mut client = server.connect();
        let told = Rc::new(RefCell::new(Vec::new()));
        let (mut there, _) = worker(&server);
        let each_comes_before_the_last_leaves = {
            let (server, told) = (server.clone(), told.clone());
            move || {
                let (next, errors) = worker(&server);
                told.borrow_mut().push(errors);
                drop(std::mem::replace(&mut there, next));
            }
        };
        let text = format!("ALTER DATABASE d SET READ_ONLY WITH ROLLBACK {termination}");
        let out = meanwhile(&mut client, &text, each_comes_before_the_last_leaves);
        assert_eq!(errors(&out), [0; 0], "{out}");
        let told = told.take();
        assert_eq!(told.last(), Some(&vec![1222]), "{told:?}");
        let come = told.iter().any(Vec::is_empty);
        assert_eq!(come, some_come, "{termination}: {told:?}");
        assert_eq!(client.scalar("SELECT COUNT(*) FROM d.dbo.t"), "0");
        let (_, refused) = worker(&server);
        assert_eq!(refused, [3906]);
    }
}

#[test]
fn who_waits_in_vain_keeps_nobody_out_afterwards() {
    for is_cancelled in [false, true] {
        let server = server();
        let mut client = server.connect();
        let (there, _) = worker(&server);
        let flag = client.session.cancel_flag();
        let text = "ALTER DATABASE d SET READ_ONLY WITH ROLLBACK IMMEDIATE";
        let out = meanwhile(&mut client, text, move || {
            if is_cancelled {
                flag.set(CancelReason::Attention);
            }
        });
        match is_cancelled {
            true => assert_eq!(client.ended, RequestEnd::Cancelled),
            false => assert_eq!(errors(&out)[..1], [5061], "{out}"),
        }
        let (_, admitted) = worker(&server);
        assert_eq!(admitted, [0; 0]);
        drop(there);
        client.done(text);
    }
}

#[test]
fn a_login_waits_for_who_wants_its_database_as_long_as_its_client_does() {
    let server = server();
    let mut client = server.connect();
    let (there, _) = worker(&server);
    let mut there = Some(there);
    let told = Rc::new(RefCell::new(None));
    let comes = {
        let (server, told) = (server.clone(), told.clone());
        move || {
            let info = LoginInfo {
                login: "sa".to_string(),
                database: "d".to_string(),
                ..LoginInfo::default()
            };
            let no_more = || Err(messages::error(1222, &[]));
            let come = Session::log_in(&server.instance, info, &no_more);
            told.replace(come.err().map(|e| e.number));
            drop(there.take());
        }
    };
    let text = "ALTER DATABASE d SET READ_ONLY WITH ROLLBACK IMMEDIATE";
    let out = meanwhile(&mut client, text, comes);
    assert_eq!(errors(&out), [0; 0], "{out}");
    assert_eq!(told.take(), Some(1222));
    assert_eq!(server.instance.sessions.count(), 1);
    drop(server.connect_to("d"));
}
