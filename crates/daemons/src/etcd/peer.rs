//! What stands behind a port for peers: an etcd, or a node that has not started its own yet.
//!
//! Both answer `GET /members`: etcd with its list and the cluster's id in a header, a waiting node with its proposal.

mod http;
mod tls;

pub(crate) use http::{Request, Response};
pub(crate) use tls::{Acceptor, Connector};

use std::io;
use std::time::Duration;

use serde::Deserialize;
use tokio::net::TcpStream;

use super::look::place_in;
use super::plan::{Answer, Listed, Proposal, Running};

const ANSWER: Duration = Duration::from_secs(2);
pub(crate) const PATH: &str = "/members";
/// Says that the body is a proposal.
pub(crate) const PROPOSAL: &str = "x-conclave-proposal";
const CLUSTER: &str = "x-etcd-cluster-id";

#[derive(Deserialize)]
struct PeerMember {
    id: u64,
    #[serde(default)]
    name: String,
    #[serde(rename = "peerURLs", default)]
    peer_urls: Vec<String>,
    #[serde(rename = "clientURLs", default)]
    client_urls: Vec<String>,
    #[serde(rename = "isLearner", default)]
    learner: bool,
}

pub(crate) async fn ask(at: &str, tls: Option<&Connector>) -> Answer {
    match tokio::time::timeout(ANSWER, exchange(at, tls)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => Answer::Silent(error.to_string()),
        Err(_) => Answer::Silent("no answer in time".to_string()),
    }
}

async fn exchange(at: &str, tls: Option<&Connector>) -> io::Result<Answer> {
    let stream = TcpStream::connect(at).await?;
    let request = Request::get(PATH, at);
    let response = match tls {
        Some(tls) => request.send(tls.connect(at, stream).await?).await?,
        None => request.send(stream).await?,
    };
    understand(&response)
}

fn understand(response: &Response) -> io::Result<Answer> {
    if response.header(PROPOSAL).is_some() {
        let proposal: Proposal = serde_json::from_slice(&response.body)?;
        return Ok(Answer::Proposes(proposal));
    }
    let cluster = response
        .header(CLUSTER)
        .and_then(|id| u64::from_str_radix(id, 16).ok())
        .ok_or_else(|| io::Error::other("something that is no etcd answers there"))?;
    let members: Vec<PeerMember> = serde_json::from_slice(&response.body)?;
    let members = members
        .into_iter()
        .map(|member| Listed {
            id: member.id,
            name: member.name,
            peer: member
                .peer_urls
                .first()
                .map_or_else(String::new, |url| place_in(url)),
            client: member.client_urls.first().map(|url| place_in(url)),
            learner: member.learner,
        })
        .collect();
    Ok(Answer::Runs(Running { cluster, members }))
}
