//! Observes the other nodes and decides, until it is clear how etcd has to be started.

mod observe_peers;

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::arguments::{EtcdMemberAddress, InitialClusterState};
use super::decision::{
    BootstrapDecision, BootstrapInputs, FoundingProposal, InitialCluster, PeerObservation, decide,
    own_proposal,
};
use super::join::join;
use super::local_state::{EtcdStateDir, FoundingRecord, FoundingStage};
use super::peer::PeerTlsAcceptor;
use super::proposal_server::ProposalServer;
use super::{EtcdDaemonError, EtcdMemberOptions};
use crate::server::port;
use crate::status_reporter::StatusReporter;
use observe_peers::ObservedPeers;

/// Short, so that founders that start together do not wait for each other longer than necessary.
const OBSERVE_INTERVAL: Duration = Duration::from_millis(300);

/// The result of the etcd bootstrap: how this node's etcd is to be started, and at which address.
#[derive(Debug)]
pub(crate) struct BootstrapResult {
    pub(crate) initial: InitialClusterState,
    pub(crate) address: EtcdMemberAddress,
}

pub(crate) async fn decide_how_to_start(
    options: &EtcdMemberOptions,
    state_dir: &EtcdStateDir,
    status: &mut StatusReporter,
) -> Result<BootstrapResult, EtcdDaemonError> {
    let deadline = Instant::now() + Duration::from_secs(options.tries.into());
    let mut proposal_server: Option<ProposalServer> = None;
    let mut about_to_promise: Option<InitialCluster> = None;
    let mut seen_promises = SeenPromises::default();
    let token = format!("conclave-{}", uuid::Uuid::now_v7());
    loop {
        let state = state_dir.read()?;
        let mut observed = ObservedPeers::observe(options, state_dir, &state).await?;
        seen_promises.update_and_substitute(&mut observed.peers);
        let inputs = BootstrapInputs {
            own: &observed.own,
            mode: &options.bootstrap,
            state: &state,
            founders: &observed.founders,
            token: &token,
            peers: &observed.peers,
        };
        let waiting_for = match decide(inputs) {
            BootstrapDecision::StartWithData => {
                observed.save_address(options, state_dir)?;
                return Ok(observed.into_result(InitialClusterState::HasData));
            }
            BootstrapDecision::Found(cluster) => {
                // Once the decision is on disk, a crash from here on leads to the same cluster.
                if cluster.founders.len() > 1 {
                    state_dir.write_founding(&FoundingRecord {
                        cluster: cluster.clone(),
                        stage: FoundingStage::Decided,
                    })?;
                }
                if let Some(server) = proposal_server.take() {
                    server.stop().await;
                }
                observed.save_address(options, state_dir)?;
                tracing::info!(?cluster, "founding a cluster");
                return Ok(observed.into_result(InitialClusterState::New(cluster)));
            }
            // Promised only if it was decided twice in a row: a list of founders may still be growing.
            BootstrapDecision::Promise(cluster) if about_to_promise.as_ref() == Some(&cluster) => {
                observed.save_address(options, state_dir)?;
                let stage = FoundingStage::Promised;
                state_dir.write_founding(&FoundingRecord { cluster, stage })?;
                continue;
            }
            BootstrapDecision::Promise(cluster) => {
                about_to_promise = Some(cluster);
                "all founders propose the same cluster".to_string()
            }
            BootstrapDecision::Join(clients) => {
                if let Some(server) = proposal_server.take() {
                    server.stop().await;
                }
                observed.save_address(options, state_dir)?;
                let members = join(options, &observed.address, state_dir, &clients, status).await?;
                return Ok(observed.into_result(InitialClusterState::Existing(members)));
            }
            BootstrapDecision::Wait(wait) => wait.to_string(),
            BootstrapDecision::Refuse(refusal) => return Err(refusal.into()),
        };
        status.activity(&waiting_for);
        if Instant::now() >= deadline {
            return Err(EtcdDaemonError::GaveUp {
                tries: options.tries,
                waiting_for,
            });
        }
        if options.bootstrap.founds_with_others() {
            let proposal = own_proposal(inputs);
            match &proposal_server {
                Some(server) if server.is_serving() => server.show(proposal),
                _ => {
                    proposal_server =
                        Some(start_proposal_server(options, &observed.address, proposal).await?);
                }
            }
        }
        tokio::time::sleep(OBSERVE_INTERVAL).await;
    }
}

async fn start_proposal_server(
    options: &EtcdMemberOptions,
    address: &EtcdMemberAddress,
    proposal: FoundingProposal,
) -> Result<ProposalServer, EtcdDaemonError> {
    let tls = options.tls.as_ref().map(PeerTlsAcceptor::new).transpose();
    let tls = tls.map_err(EtcdDaemonError::ProposalServer)?;
    port::check_free(&address.host, options.peer_port, "etcd.peer_port")?;
    ProposalServer::start(address.ip, options.peer_port, tls, proposal)
        .await
        .map_err(EtcdDaemonError::ProposalServer)
}

/// The latest promise to found a new etcd cluster that each of the other nodes has shown, by its address.
#[derive(Default)]
struct SeenPromises(BTreeMap<String, FoundingProposal>);

impl SeenPromises {
    /// Remembers promises, and puts a remembered one in the place of a peer that no longer answers.
    fn update_and_substitute(&mut self, peers: &mut [(String, PeerObservation)]) {
        for (peer, observation) in peers {
            match observation {
                PeerObservation::Proposing(proposal) if proposal.stage.is_some() => {
                    self.0.insert(peer.clone(), proposal.clone());
                }
                PeerObservation::Unreachable(_) => {
                    if let Some(promise) = self.0.get(peer) {
                        *observation = PeerObservation::PromisedEarlier(promise.clone());
                    }
                }
                // It runs etcd, or it has a new data folder: its earlier promise no longer counts.
                PeerObservation::Running(_)
                | PeerObservation::Proposing(_)
                | PeerObservation::PromisedEarlier(_) => {
                    self.0.remove(peer);
                }
            }
        }
    }
}
