//! Finds the other nodes as the bootstrap mode says, and asks each what it runs.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use futures::future::join_all;

use super::super::arguments::{EtcdMemberAddress, InitialClusterState};
use super::super::cluster_view::query_cluster;
use super::super::decision::{BootstrapWait, NamedPeer, PeerObservation};
use super::super::local_state::{EtcdLocalState, EtcdStateDir};
use super::super::peer::{PeerTlsConnector, query_peer};
use super::super::{BootstrapMode, EtcdDaemonError, EtcdMemberOptions};
use super::BootstrapResult;
use crate::server::port::{host_port, is_local, own_ip};

/// What one round of the etcd bootstrap observed: this node's address, and what the other nodes answered.
pub(super) struct ObservedPeers {
    pub(super) address: EtcdMemberAddress,
    pub(super) own: NamedPeer,
    /// The founders of the cluster that this node would found, itself included; or why they are not known.
    pub(super) founders: Result<Vec<NamedPeer>, BootstrapWait>,
    /// What each node answered, by the address that was asked.
    pub(super) peers: Vec<(String, PeerObservation)>,
}

impl ObservedPeers {
    pub(super) async fn observe(
        options: &EtcdMemberOptions,
        state_dir: &EtcdStateDir,
        state: &EtcdLocalState,
    ) -> Result<ObservedPeers, EtcdDaemonError> {
        let saved = saved_address(options, state_dir)?;
        let keeps_address = saved.is_some() || state.has_data;
        let address = match saved {
            Some(address) => address,
            None => configured_address(options)?,
        };
        let own = NamedPeer::new(&options.name, &host_port(&address.host, options.peer_port));
        let mut observed = ObservedPeers {
            address,
            own,
            founders: Ok(Vec::new()),
            peers: Vec::new(),
        };
        match &options.bootstrap {
            BootstrapMode::Unspecified | BootstrapMode::First => {}
            BootstrapMode::Join(addresses) => observed.query_clients(options, addresses).await,
            BootstrapMode::Members(members) => {
                let founders: Vec<NamedPeer> = members
                    .iter()
                    .map(|(name, peer)| NamedPeer::new(name, peer))
                    .collect();
                let peers = founders.iter().map(|founder| founder.peer.clone()).collect();
                observed.founders = Ok(founders);
                observed.query_peers(options, state, peers).await?;
            }
            BootstrapMode::Discover { name, expect } => match options.resolver.resolve_service(name).await {
                Err(wait) => {
                    observed.founders = Err(wait);
                    observed.query_peers(options, state, BTreeSet::new()).await?;
                }
                Ok(resolved) => {
                    if !keeps_address {
                        observed.take_address_from(&resolved, options);
                    }
                    match expect {
                        Some(expect) => {
                            observed.founders = observed.choose_founders(options, &resolved, (name, *expect));
                            let peers = resolved
                                .iter()
                                .map(|ip| SocketAddr::new(*ip, options.peer_port).to_string());
                            observed.query_peers(options, state, peers.collect()).await?;
                        }
                        None => {
                            let own = observed.address.ip;
                            let others = resolved.iter().filter(|ip| **ip != own);
                            let clients: Vec<String> = others
                                .map(|ip| SocketAddr::new(*ip, options.client_port).to_string())
                                .collect();
                            observed.query_clients(options, &clients).await;
                        }
                    }
                }
            },
        }
        Ok(observed)
    }

    pub(super) fn into_result(self, initial: InitialClusterState) -> BootstrapResult {
        BootstrapResult {
            initial,
            address: self.address,
        }
    }

    /// Saves an address that came from DNS: a member keeps its address.
    pub(super) fn save_address(
        &self,
        options: &EtcdMemberOptions,
        state_dir: &EtcdStateDir,
    ) -> Result<(), EtcdDaemonError> {
        if self.address.host != options.host {
            state_dir.write_address(&self.address.host)?;
        }
        Ok(())
    }

    /// Nodes behind a DNS name know each other by address. This node takes the configured address if it is among the
    /// resolved ones, and otherwise the resolved address that belongs to this machine.
    fn take_address_from(&mut self, resolved: &BTreeSet<IpAddr>, options: &EtcdMemberOptions) {
        let configured = self.address.ip;
        let own = match resolved.contains(&configured) {
            true => Some(configured),
            false => resolved.iter().copied().find(|ip| is_local(*ip)),
        };
        if let Some(ip) = own {
            self.address = EtcdMemberAddress {
                host: ip.to_string(),
                ip,
                extra_client_ip: extra_client_ip(options, ip),
            };
            self.own.peer = SocketAddr::new(ip, options.peer_port).to_string();
        }
    }

    /// The first `expect` addresses, in order.
    fn choose_founders(
        &self,
        options: &EtcdMemberOptions,
        resolved: &BTreeSet<IpAddr>,
        (name, expect): (&str, u32),
    ) -> Result<Vec<NamedPeer>, BootstrapWait> {
        let wanted = usize::try_from(expect).unwrap_or(usize::MAX);
        let texts = || resolved.iter().map(IpAddr::to_string).collect();
        if resolved.len() < wanted {
            return Err(BootstrapWait::TooFewAddresses {
                name: name.to_string(),
                resolved: texts(),
                expect,
            });
        }
        if !resolved.contains(&self.address.ip) {
            return Err(BootstrapWait::OwnAddressNotResolved {
                name: name.to_string(),
                resolved: texts(),
                host: options.host.clone(),
            });
        }
        let founders = resolved.iter().take(wanted).map(|ip| {
            let peer = SocketAddr::new(*ip, options.peer_port).to_string();
            let name = if peer == self.own.peer { &options.name } else { "" };
            NamedPeer::new(name, &peer)
        });
        Ok(founders.collect())
    }

    /// Queries these peer addresses, and those of the founders to whom this node gave a promise: DNS may no longer
    /// resolve to them.
    async fn query_peers(
        &mut self,
        options: &EtcdMemberOptions,
        state: &EtcdLocalState,
        mut peers: BTreeSet<String>,
    ) -> Result<(), EtcdDaemonError> {
        let promised = state
            .founding
            .iter()
            .flat_map(|founding| &founding.cluster.founders);
        peers.extend(promised.map(|founder| founder.peer.clone()));
        peers.remove(&self.own.peer);
        let tls = options.tls.as_ref().map(PeerTlsConnector::new).transpose();
        let tls = tls.map_err(EtcdDaemonError::ProposalServer)?;
        let queries = peers.into_iter().map(|peer| {
            let tls = tls.as_ref();
            async move {
                let observation = query_peer(&peer, tls).await;
                (peer, observation)
            }
        });
        self.peers = join_all(queries).await;
        Ok(())
    }

    /// Queries client addresses, each on its own: a list that leads to two clusters has to be noticed.
    async fn query_clients(&mut self, options: &EtcdMemberOptions, clients: &[String]) {
        let queries = clients.iter().map(|at| async move {
            let access = options.access(vec![at.clone()]);
            let observation = match query_cluster(&access).await {
                Ok(cluster) => PeerObservation::Running(cluster.running),
                Err(failed) => {
                    let reason = failed.into_iter().map(|(_, reason)| reason).next();
                    PeerObservation::Unreachable(reason.unwrap_or_default())
                }
            };
            (at.clone(), observation)
        });
        self.peers = join_all(queries).await;
    }
}

/// The address that an earlier start saved, if this machine still has it.
fn saved_address(
    options: &EtcdMemberOptions,
    state_dir: &EtcdStateDir,
) -> Result<Option<EtcdMemberAddress>, EtcdDaemonError> {
    let Some(host) = state_dir.address()? else {
        return Ok(None);
    };
    let Ok(ip) = own_ip(&host) else {
        return Ok(None);
    };
    Ok(Some(EtcdMemberAddress {
        host,
        ip,
        extra_client_ip: extra_client_ip(options, ip),
    }))
}

/// The configured address, if the member listens on another one.
fn extra_client_ip(options: &EtcdMemberOptions, ip: IpAddr) -> Option<IpAddr> {
    own_ip(&options.host).ok().filter(|configured| *configured != ip)
}

fn configured_address(options: &EtcdMemberOptions) -> Result<EtcdMemberAddress, EtcdDaemonError> {
    Ok(EtcdMemberAddress {
        host: options.host.clone(),
        ip: own_ip(&options.host)?,
        extra_client_ip: None,
    })
}
