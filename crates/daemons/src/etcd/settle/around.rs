//! One look at the others, by the ways that were given.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::join_all;

use super::super::arguments::{Initial, Place};
use super::super::look::look;
use super::super::notes::{Notes, OnDisk};
use super::super::options::address;
use super::super::peer::{Connector, ask};
use super::super::plan::{Answer, Founder, Waiting};
use super::super::{EtcdError, Options, Start};
use super::Settled;
use crate::server::port::{is_local, own_ip};

/// A DNS server that does not answer must not hold up a node that knows its cluster.
const RESOLVE: Duration = Duration::from_secs(3);

pub(super) struct Around {
    pub(super) place: Place,
    pub(super) me: Founder,
    pub(super) proposal: Result<Vec<Founder>, Waiting>,
    pub(super) answers: Vec<(String, Answer)>,
}

impl Around {
    pub(super) async fn look(options: &Options, notes: &Notes, disk: &OnDisk) -> Result<Around, EtcdError> {
        let noted = noted(options, notes)?;
        let settled = noted.is_some() || disk.data;
        let place = match noted {
            Some(place) => place,
            None => configured(options)?,
        };
        let me = Founder::new(&options.name, &address(&place.host, options.peer_port));
        let mut around = Around {
            place,
            me,
            proposal: Ok(Vec::new()),
            answers: Vec::new(),
        };
        match &options.start {
            Start::Unsaid | Start::First => {}
            Start::Join(addresses) => around.ask_members(options, addresses).await,
            Start::Members(members) => {
                let founders = members.iter().map(|(name, peer)| Founder::new(name, peer));
                around.proposal = Ok(founders.collect());
                around.ask_peers(options, disk).await?;
            }
            Start::Discover { name, expect } => match resolve(options, name).await {
                Err(waiting) => {
                    around.proposal = Err(waiting);
                    around.ask_peers(options, disk).await?;
                }
                Ok(seen) => {
                    // A node that has an address keeps it.
                    if !settled {
                        around.take_place(&seen, options);
                    }
                    match expect {
                        Some(expect) => {
                            around.propose(options, &seen, (name, *expect));
                            around.ask_seen(options, disk, &seen).await?;
                        }
                        None => {
                            let own = around.place.ip;
                            let others = seen.iter().filter(|ip| **ip != own);
                            let clients: Vec<String> = others
                                .map(|ip| SocketAddr::new(*ip, options.client_port).to_string())
                                .collect();
                            around.ask_members(options, &clients).await;
                        }
                    }
                }
            },
        }
        Ok(around)
    }

    pub(super) fn settled(self, initial: Initial) -> Settled {
        Settled {
            initial,
            place: self.place,
        }
    }

    /// What DNS said about this node is written down: as a member it keeps its address.
    pub(super) fn keep_address(&self, options: &Options, notes: &Notes) -> Result<(), EtcdError> {
        if self.place.host != options.host {
            notes.set_address(&self.place.host)?;
        }
        Ok(())
    }

    /// Behind a name, nodes know each other by address: the configured one where it is among those seen, else the one
    /// that is this machine's.
    fn take_place(&mut self, seen: &BTreeSet<IpAddr>, options: &Options) {
        let configured = self.place.ip;
        let own = match seen.contains(&configured) {
            true => Some(configured),
            false => seen.iter().copied().find(|ip| is_local(*ip)),
        };
        if let Some(ip) = own {
            let also = own_ip(&options.host).ok().filter(|other| *other != ip);
            self.place = Place {
                host: ip.to_string(),
                ip,
                also,
            };
            self.me.peer = SocketAddr::new(ip, options.peer_port).to_string();
        }
    }

    /// The first so many addresses in order.
    fn propose(&mut self, options: &Options, seen: &BTreeSet<IpAddr>, (name, expect): (&str, u32)) {
        let wanted = usize::try_from(expect).unwrap_or(usize::MAX);
        let texts = || seen.iter().map(IpAddr::to_string).collect();
        self.proposal = if seen.len() < wanted {
            Err(Waiting::TooFew {
                name: name.to_string(),
                seen: texts(),
                expect,
            })
        } else if !seen.contains(&self.place.ip) {
            Err(Waiting::NotListed {
                name: name.to_string(),
                seen: texts(),
                host: options.host.clone(),
            })
        } else {
            let peers = seen.iter().take(wanted);
            let founders = peers.map(|ip| {
                let peer = SocketAddr::new(*ip, options.peer_port).to_string();
                let name = if peer == self.me.peer { &options.name } else { "" };
                Founder::new(name, &peer)
            });
            Ok(founders.collect())
        };
    }

    async fn ask_seen(
        &mut self,
        options: &Options,
        disk: &OnDisk,
        seen: &BTreeSet<IpAddr>,
    ) -> Result<(), EtcdError> {
        let peers = seen
            .iter()
            .map(|ip| SocketAddr::new(*ip, options.peer_port).to_string());
        self.ask_at(options, disk, peers.collect()).await
    }

    async fn ask_peers(&mut self, options: &Options, disk: &OnDisk) -> Result<(), EtcdError> {
        let proposed = self.proposal.iter().flatten();
        let peers = proposed.map(|founder| founder.peer.clone()).collect();
        self.ask_at(options, disk, peers).await
    }

    /// These, and whoever was promised something: DNS may have forgotten them.
    async fn ask_at(
        &mut self,
        options: &Options,
        disk: &OnDisk,
        mut peers: BTreeSet<String>,
    ) -> Result<(), EtcdError> {
        let promised = disk
            .founding
            .iter()
            .flat_map(|founding| &founding.charter.founders);
        peers.extend(promised.map(|founder| founder.peer.clone()));
        peers.remove(&self.me.peer);
        let tls = options.tls.as_ref().map(Connector::new).transpose();
        let tls = tls.map_err(EtcdError::Propose)?;
        let asked = peers.into_iter().map(|peer| {
            let tls = tls.as_ref();
            async move {
                let answer = ask(&peer, tls).await;
                (peer, answer)
            }
        });
        self.answers = join_all(asked).await;
        Ok(())
    }

    /// By their addresses for clients. One that answers speaks for all of its cluster; those of another cluster are
    /// asked too, so that a list that leads to two is noticed.
    async fn ask_members(&mut self, options: &Options, clients: &[String]) {
        let asked = clients.iter().map(|at| async move {
            let access = options.access(vec![at.clone()]);
            let answer = match look(&access).await {
                Ok(cluster) => Answer::Runs(cluster.running),
                Err(silent) => {
                    let why = silent.into_iter().map(|(_, why)| why).next();
                    Answer::Silent(why.unwrap_or_default())
                }
            };
            (at.clone(), answer)
        });
        self.answers = join_all(asked).await;
    }
}

/// The address that was found earlier, as long as this machine has it.
fn noted(options: &Options, notes: &Notes) -> Result<Option<Place>, EtcdError> {
    let Some(host) = notes.address()? else {
        return Ok(None);
    };
    let Ok(ip) = own_ip(&host) else {
        return Ok(None);
    };
    let also = own_ip(&options.host).ok().filter(|other| *other != ip);
    Ok(Some(Place { host, ip, also }))
}

fn configured(options: &Options) -> Result<Place, EtcdError> {
    Ok(Place {
        host: options.host.clone(),
        ip: own_ip(&options.host)?,
        also: None,
    })
}

async fn resolve(options: &Options, name: &str) -> Result<BTreeSet<IpAddr>, Waiting> {
    let unresolved = |why: String| Waiting::Unresolved {
        name: name.to_string(),
        why,
    };
    match tokio::time::timeout(RESOLVE, options.resolver.service(name)).await {
        Ok(Ok(seen)) => Ok(seen),
        Ok(Err(error)) => Err(unresolved(error.to_string())),
        Err(_) => Err(unresolved("no answer in time".to_string())),
    }
}
