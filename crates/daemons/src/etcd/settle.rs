//! Looks around and decides until it is clear how etcd is to be started.

mod around;

use std::collections::BTreeMap;
use std::time::Duration;

use boot::{Tether, Word};
use tokio::time::Instant;

use super::arguments::{Initial, Place};
use super::join::join;
use super::notes::{Founding, Notes, Stage};
use super::peer::Acceptor;
use super::plan::{Answer, Charter, Plan, Proposal, Situation, plan, shown};
use super::propose::Proposer;
use super::{EtcdError, Options, Start};
use around::Around;

/// Between two looks: founders that start together should not wait for each other longer than they must.
const PAUSE: Duration = Duration::from_millis(300);

/// How etcd is to be started, and where.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) initial: Initial,
    pub(crate) place: Place,
}

pub(crate) async fn settle(options: &Options, notes: &Notes, tether: &Tether) -> Result<Settled, EtcdError> {
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    let mut proposer: Option<Proposer> = None;
    let mut about_to_promise: Option<Charter> = None;
    let mut promises = Promises::default();
    let token = format!("conclave-{}", uuid::Uuid::now_v7());
    let mut doing = String::new();
    loop {
        let disk = notes.read()?;
        let mut around = Around::look(options, notes, &disk).await?;
        promises.recall(&mut around.answers);
        let situation = Situation {
            me: &around.me,
            start: &options.start,
            disk: &disk,
            proposal: &around.proposal,
            token: &token,
            answers: &around.answers,
        };
        let waiting = match plan(situation) {
            Plan::Run => {
                around.keep_address(options, notes)?;
                return Ok(around.settled(Initial::Known));
            }
            Plan::FoundWith(charter) => {
                // With the decision on disk, a crash from here on leads to the same cluster.
                if charter.founders.len() > 1 {
                    notes.founds(&Founding {
                        charter: charter.clone(),
                        stage: Stage::Decided,
                    })?;
                }
                if let Some(proposer) = proposer.take() {
                    proposer.end().await;
                }
                around.keep_address(options, notes)?;
                tracing::info!(?charter, "founds a cluster");
                return Ok(around.settled(Initial::New(charter)));
            }
            // Seen twice in a row: lists that are still growing are not promised.
            Plan::Promise(charter) if about_to_promise.as_ref() == Some(&charter) => {
                around.keep_address(options, notes)?;
                let stage = Stage::Promised;
                notes.founds(&Founding { charter, stage })?;
                continue;
            }
            Plan::Promise(charter) => {
                about_to_promise = Some(charter);
                "all founders agree".to_string()
            }
            Plan::Join(clients) => {
                if let Some(proposer) = proposer.take() {
                    proposer.end().await;
                }
                around.keep_address(options, notes)?;
                let members = join(options, &around.place, notes, &clients, tether).await?;
                return Ok(around.settled(Initial::Existing(members)));
            }
            Plan::Wait(waiting) => waiting.to_string(),
            Plan::Refuse(refusal) => return Err(refusal.into()),
        };
        if waiting != doing {
            tracing::info!("{waiting}");
            tether.say(&Word::Doing(waiting.clone()));
            doing.clone_from(&waiting);
        }
        if Instant::now() >= deadline {
            return Err(EtcdError::GaveUp {
                tries: options.tries,
                waiting,
            });
        }
        if founds(&options.start) {
            let proposal = shown(situation);
            match &proposer {
                Some(proposer) if proposer.is_serving() => proposer.show(proposal),
                _ => {
                    let tls = options.tls.as_ref().map(Acceptor::new).transpose();
                    let tls = tls.map_err(EtcdError::Propose)?;
                    crate::server::port::check_free(&around.place.host, options.peer_port, "etcd.peer_port")?;
                    let started = Proposer::start(around.place.ip, options.peer_port, tls, proposal).await;
                    proposer = Some(started.map_err(EtcdError::Propose)?);
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn founds(start: &Start) -> bool {
    matches!(start, Start::Members(_) | Start::Discover { expect: Some(_), .. })
}

/// Those that were heard, by the addresses of who made them.
#[derive(Default)]
struct Promises(BTreeMap<String, Proposal>);

impl Promises {
    /// A promise that was heard stands in for the silence of whoever made it.
    fn recall(&mut self, answers: &mut [(String, Answer)]) {
        for (peer, answer) in answers {
            match answer {
                Answer::Proposes(theirs) if theirs.stage.is_some() => {
                    self.0.insert(peer.clone(), theirs.clone());
                }
                Answer::Silent(_) => {
                    if let Some(promise) = self.0.get(peer) {
                        *answer = Answer::Promised(promise.clone());
                    }
                }
                // It runs; or it has a new data folder, and nothing of it is known any more.
                Answer::Runs(_) | Answer::Proposes(_) | Answer::Promised(_) => {
                    self.0.remove(peer);
                }
            }
        }
    }
}
