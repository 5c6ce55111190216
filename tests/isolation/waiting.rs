//! Checks that begin inside another check.

use std::sync::{Mutex, mpsc};
use std::thread;

use gpu_leak_check::gpu_leak_check;
use gpu_leak_tests::checked::{self, Checked};
use gpu_leak_tests::child::Run;

use super::{give_back, report, take};

fn run(test: &str) -> Checked {
    checked::finish(Run::of(&format!("isolation::waiting::{test}")).beside_others())
}

static REQUESTS: Mutex<Option<mpsc::Sender<mpsc::Sender<()>>>> = Mutex::new(None);

#[gpu_leak_check]
#[ignore = "run by a test that starts its thread"]
#[test]
fn waits_for_a_check_on_an_old_thread() {
    let (done, answer) = mpsc::channel();
    REQUESTS
        .lock()
        .unwrap()
        .clone()
        .unwrap()
        .send(done)
        .unwrap();
    answer.recv().unwrap();
}

#[gpu_leak_check]
#[ignore = "run by another test"]
#[test]
fn on_an_old_thread() {
    give_back(take(8));
}

#[test]
#[ignore = "run in a process of its own"]
fn a_thread_older_than_every_check_calls_one() {
    let (requests, inbox) = mpsc::channel::<mpsc::Sender<()>>();
    thread::spawn(move || {
        for done in inbox {
            on_an_old_thread();
            done.send(()).unwrap();
        }
    });
    *REQUESTS.lock().unwrap() = Some(requests);
    waits_for_a_check_on_an_old_thread();
}

#[test]
fn a_check_that_another_one_waits_for_does_not_wait_at_the_gate() {
    let checked = run("a_thread_older_than_every_check_calls_one");
    checked.assert_clean();
    assert_eq!(checked.reports.len(), 2, "{}", checked.output());
    assert_eq!(report(&checked, "::on_an_old_thread").waited_ms, 0);
}
