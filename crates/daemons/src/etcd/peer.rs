//! Queries what listens on a peer port: a running etcd, or a node that has not started its etcd yet.
//!
//! Both answer `GET /members`: etcd with its member list and the cluster id in a header, a waiting node with its
//! founding proposal.

mod http;
mod tls;

pub(crate) use http::{PeerHttpResponse, get};
pub(crate) use tls::{PeerTlsAcceptor, PeerTlsConnector, common_name, read_certificates};

use std::io;
use std::time::Duration;

use serde::Deserialize;

use super::cluster_view::host_port_of_url;
use super::decision::{FoundingProposal, ListedMember, PeerObservation, RunningCluster};

const QUERY_TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) const MEMBERS_PATH: &str = "/members";
/// Marks a response whose body is a founding proposal.
pub(crate) const PROPOSAL_HEADER: &str = "x-conclave-proposal";
const CLUSTER_ID_HEADER: &str = "x-etcd-cluster-id";

/// An etcd member in the JSON of etcd's answer to `GET /members` on the peer port.
#[derive(Deserialize)]
struct MemberJson {
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

pub(crate) async fn query_peer(host_port: &str, tls: Option<&PeerTlsConnector>) -> PeerObservation {
    let query = async { parse_response(&get(MEMBERS_PATH, host_port, tls).await?) };
    match tokio::time::timeout(QUERY_TIMEOUT, query).await {
        Ok(Ok(observation)) => observation,
        Ok(Err(error)) => PeerObservation::Unreachable(error.to_string()),
        Err(_) => PeerObservation::Unreachable("timed out".to_string()),
    }
}

fn parse_response(response: &PeerHttpResponse) -> io::Result<PeerObservation> {
    if response.header(PROPOSAL_HEADER).is_some() {
        let proposal: FoundingProposal = serde_json::from_slice(&response.body)?;
        return Ok(PeerObservation::Proposing(proposal));
    }
    let cluster = response
        .header(CLUSTER_ID_HEADER)
        .and_then(|id| u64::from_str_radix(id, 16).ok())
        .ok_or_else(|| io::Error::other("the server that answers is not etcd"))?;
    let members: Vec<MemberJson> = serde_json::from_slice(&response.body)?;
    let members = members
        .into_iter()
        .map(|member| ListedMember {
            id: member.id,
            name: member.name,
            peer: member
                .peer_urls
                .first()
                .map_or_else(String::new, |url| host_port_of_url(url)),
            client: member.client_urls.first().map(|url| host_port_of_url(url)),
            learner: member.learner,
        })
        .collect();
    Ok(PeerObservation::Running(RunningCluster { cluster, members }))
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use hyper::header::HeaderValue;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::decision::{InitialCluster, NamedPeer};
    use super::super::proposal_server::ProposalServer;
    use super::*;

    #[tokio::test]
    async fn a_proposal_is_received_as_it_was_shown() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut proposal = FoundingProposal {
            name: "a".into(),
            cluster: InitialCluster {
                founders: Vec::new(),
                token: "t".into(),
            },
            stage: None,
            promises_seen: Vec::new(),
        };
        let server = ProposalServer::start(free.ip(), free.port(), None, proposal.clone())
            .await
            .unwrap();
        let at = free.to_string();
        assert_eq!(
            query_peer(&at, None).await,
            PeerObservation::Proposing(proposal.clone())
        );
        proposal.cluster.founders.push(NamedPeer::new("a", &at));
        server.show(proposal.clone());
        assert_eq!(query_peer(&at, None).await, PeerObservation::Proposing(proposal));
        let other = get("/", &at, None).await.unwrap();
        assert!(other.header(PROPOSAL_HEADER).is_none() && other.body.is_empty());
        // etcd needs the port afterwards.
        server.stop().await;
        std::net::TcpListener::bind(free).unwrap();
    }

    /// etcd often keeps it open for 5 s, which is longer than the query timeout.
    #[tokio::test]
    async fn an_etcd_that_keeps_the_connection_open_counts_as_running() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let etcd = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            let response =
                "HTTP/1.1 200 OK\r\nX-Etcd-Cluster-Id: 7\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]";
            stream.write_all(response.as_bytes()).await.unwrap();
            // Returns when the client closes the connection.
            stream.read_to_end(&mut Vec::new()).await.unwrap();
        });
        let running = RunningCluster {
            cluster: 7,
            members: Vec::new(),
        };
        assert_eq!(query_peer(&at, None).await, PeerObservation::Running(running));
        etcd.await.unwrap();
    }

    #[test]
    fn the_member_list_of_etcd_is_parsed() {
        let parse = |cluster_id: Option<&'static str>, body: &'static str| {
            let mut headers = HeaderMap::new();
            if let Some(id) = cluster_id {
                headers.insert("X-Etcd-Cluster-Id", HeaderValue::from_static(id));
            }
            let body = body.into();
            parse_response(&PeerHttpResponse { headers, body })
        };
        let id = Some("8aa6af022dc45569");
        let body = r#"[{"id":3319814642761637952,"peerURLs":["http://10.0.0.1:2380"],"name":"a",
            "clientURLs":["http://10.0.0.1:2379"]},
            {"id":2,"peerURLs":["http://10.0.0.2:2380"],"name":"","isLearner":true}]"#;
        let running = RunningCluster {
            cluster: 0x8aa6_af02_2dc4_5569,
            members: vec![
                ListedMember {
                    id: 3_319_814_642_761_637_952,
                    name: "a".into(),
                    peer: "10.0.0.1:2380".into(),
                    client: Some("10.0.0.1:2379".into()),
                    learner: false,
                },
                ListedMember {
                    id: 2,
                    name: String::new(),
                    peer: "10.0.0.2:2380".into(),
                    client: None,
                    learner: true,
                },
            ],
        };
        assert_eq!(parse(id, body).unwrap(), PeerObservation::Running(running));
        assert!(parse(id, "<html>").is_err());
        assert!(parse(None, "[]").is_err());
    }
}
