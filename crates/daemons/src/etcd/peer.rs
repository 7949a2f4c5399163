//! What stands behind a port for peers: an etcd, or a node that has not started its own yet.
//!
//! Both answer `GET /members`: etcd with its list and the cluster's id in a header, a waiting node with its proposal.

mod http;
mod tls;

pub(crate) use http::{Request, Response};
pub(crate) use tls::{Acceptor, Connector, certificates};

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
    understand(&get(PATH, at, tls).await?)
}

pub(crate) async fn get(path: &str, at: &str, tls: Option<&Connector>) -> io::Result<Response> {
    let stream = TcpStream::connect(at).await?;
    let request = Request::get(path, at);
    match tls {
        Some(tls) => request.send(tls.connect(at, stream).await?).await,
        None => request.send(stream).await,
    }
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

#[cfg(test)]
mod tests {
    use super::super::plan::{Charter, Founder};
    use super::super::propose::Proposer;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_proposal_is_heard_as_it_was_shown() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut proposal = Proposal {
            name: "a".into(),
            charter: Charter {
                founders: Vec::new(),
                token: "t".into(),
            },
            stage: None,
            heard: Vec::new(),
        };
        let proposer = Proposer::start(free.ip(), free.port(), None, proposal.clone())
            .await
            .unwrap();
        let at = free.to_string();
        assert_eq!(ask(&at, None).await, Answer::Proposes(proposal.clone()));
        proposal.charter.founders.push(Founder::new("a", &at));
        proposer.show(proposal.clone());
        assert_eq!(ask(&at, None).await, Answer::Proposes(proposal));
        // Then the port is etcd's.
        proposer.end().await;
        std::net::TcpListener::bind(free).unwrap();
    }

    /// As etcd itself often does for 5 s, which is longer than is waited for an answer.
    #[tokio::test]
    async fn an_etcd_that_keeps_the_connection_open_is_heard() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap().to_string();
        let etcd = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let answer =
                "HTTP/1.1 200 OK\r\nX-Etcd-Cluster-Id: 7\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]";
            stream.write_all(answer.as_bytes()).await.unwrap();
            // Until the other side hangs up.
            stream.read_to_end(&mut Vec::new()).await.unwrap();
        });
        let running = Running {
            cluster: 7,
            members: Vec::new(),
        };
        assert_eq!(ask(&at, None).await, Answer::Runs(running));
        etcd.await.unwrap();
    }

    #[test]
    fn what_etcd_says_about_its_members_is_understood() {
        let answer = |headers: &[(&str, &str)], body: &str| {
            let headers = headers
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()));
            understand(&Response {
                headers: headers.collect(),
                body: body.as_bytes().to_vec(),
            })
        };
        let id = [("X-Etcd-Cluster-Id", "8aa6af022dc45569")];
        let body = r#"[{"id":3319814642761637952,"peerURLs":["http://10.0.0.1:2380"],"name":"a",
            "clientURLs":["http://10.0.0.1:2379"]},
            {"id":2,"peerURLs":["http://10.0.0.2:2380"],"name":"","isLearner":true}]"#;
        let running = Running {
            cluster: 0x8aa6_af02_2dc4_5569,
            members: vec![
                Listed {
                    id: 3_319_814_642_761_637_952,
                    name: "a".into(),
                    peer: "10.0.0.1:2380".into(),
                    client: Some("10.0.0.1:2379".into()),
                    learner: false,
                },
                Listed {
                    id: 2,
                    name: String::new(),
                    peer: "10.0.0.2:2380".into(),
                    client: None,
                    learner: true,
                },
            ],
        };
        assert_eq!(answer(&id, body).unwrap(), Answer::Runs(running));
        assert!(answer(&id, "<html>").is_err());
        assert!(answer(&[], "[]").is_err());
    }
}
