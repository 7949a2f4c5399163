use model::{Content, SessionId};

use super::*;
use crate::fixtures::{handout, spec};

struct Fixture {
    bench: Arc<Bench>,
    events: mpsc::UnboundedReceiver<(Instant, Event)>,
    _folder: tempfile::TempDir,
}

impl Fixture {
    /// A bench whose slots are not started.
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let equipment = Equipment {
            slots: 1,
            work: folder.path().to_path_buf(),
            cache: Cache::open(folder.path().join("cache"), 1 << 20).unwrap(),
            spool: Spool::open(&folder.path().join("spool"), &[]).unwrap(),
            mark: ("CONCLAVE_EXECUTOR".into(), "test".into()),
            keep_output: 1 << 20,
            shell: "sh",
            reserve: 0,
            launcher: Launcher {
                isolation: Isolation::None,
                program: "/bin/false".into(),
                args: Vec::new(),
                lock: None,
            },
        };
        let (sender, events) = mpsc::unbounded_channel();
        Fixture {
            bench: Bench::new(equipment, sender),
            events,
            _folder: folder,
        }
    }

    fn job(&self, stall: Duration) -> Job {
        Job {
            handout: handout(SessionId::generate()),
            spec: spec(Content::empty()),
            platform_losses: 0,
            control: Arc::new(Control::new(stall)),
            _pins: self.bench.cache.pins(),
        }
    }

    /// What the executor was told of, and is given back or ended.
    fn ended(&mut self) -> Vec<Handout> {
        let events = std::iter::from_fn(|| self.events.try_recv().ok());
        let ended = events.filter_map(|(_, event)| match event {
            Event::Ended(handout, Ending::Withdrawn) => Some(handout),
            _ => None,
        });
        ended.collect()
    }
}

/// However it comes to its end, and however slowly.
#[test]
fn a_task_ended_for_memory_is_a_failure_of_the_platform_and_no_reason_to_pause() {
    let fixture = Fixture::new();
    let short = "the machine was short of memory";
    let check = |failure: Failure, stuck: bool| {
        let job = fixture.job(Duration::ZERO);
        job.control.lose(short.into()).unwrap();
        if stuck {
            job.control.on_progress("end the command");
            assert!(job.control.look(Instant::now()).is_some());
            assert!(job.control.stuck().is_some());
        }
        let ending = fixture.bench.on_end(&job, Err(failure), Duration::ZERO);
        assert!(matches!(ending, Ending::EndedForMemory));
        fixture.bench.spool.end_all_pauses();
        let kept = fixture.bench.spool.carry(1 << 20, 100).complete;
        let end = kept.into_iter().find(|complete| complete.handout == job.handout);
        assert_eq!(end.map(|end| end.end), Some(End::PlatformFailure(short.into())));
    };
    for stuck in [false, true] {
        check(Failure::Withdrawn, stuck);
        check(Failure::WardenLost("the warden died".into()), stuck);
        check(Failure::Broken("could not write x".into()), stuck);
    }
}

#[test]
fn while_memory_is_low_nothing_begins_and_what_comes_is_given_back() {
    let mut fixture = Fixture::new();
    let bench = fixture.bench.clone();
    let before = fixture.job(Duration::ZERO);
    let begins_later = before.handout;
    bench.push(before);
    bench.reserve.on_fell(&bench);
    // A slot that becomes free does not begin it; when the executor ends, it begins nothing any more.
    bench.close();
    assert!(bench.next().is_none());
    let job = fixture.job(Duration::ZERO);
    let handout = job.handout;
    bench.push(job);
    assert_eq!(fixture.ended(), [handout]);
    let job = fixture.job(Duration::ZERO);
    let handout = job.handout;
    bench.put_back(job);
    assert_eq!(fixture.ended(), [handout]);

    bench.reserve.on_rose(&bench);
    assert_eq!(bench.next().map(|job| job.handout), Some(begins_later));
}

/// A slot that waits must learn that there is memory again.
#[test]
fn a_slot_that_waits_goes_on_when_there_is_memory_again() {
    let fixture = Fixture::new();
    let bench = fixture.bench.clone();
    bench.push(fixture.job(Duration::ZERO));
    bench.reserve.on_fell(&bench);
    let (sender, began) = std::sync::mpsc::channel();
    let slot = std::thread::spawn({
        let bench = bench.clone();
        move || sender.send(bench.next().is_some())
    });
    let none = began.recv_timeout(Duration::from_millis(50));
    assert!(none.is_err(), "it began while memory was low");
    bench.reserve.on_rose(&bench);
    assert_eq!(began.recv_timeout(Duration::from_secs(60)), Ok(true));
    slot.join().unwrap().unwrap();
}
