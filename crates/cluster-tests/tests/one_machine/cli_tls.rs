//! `https://` through a TLS proxy in front of the node.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use cluster_tests::ConclaveCli;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::harness::{SingleNode, text};

/// A test CA and a certificate of it for loopback, for the TLS proxy before a gateway under test.
struct Certificates {
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificates {
    fn create(folder: &Path) -> Certificates {
        std::fs::write(
            folder.join("extensions"),
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n",
        )
        .expect("a file");
        let openssl = |args: &str| {
            let ran = Command::new("openssl")
                .args(args.split_whitespace())
                .current_dir(folder)
                .output()
                .expect("openssl runs");
            assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        };
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(&format!(
            "req -x509 {key} -keyout ca.key -out ca.pem -days 2 -subj /CN=tests"
        ));
        openssl(&format!(
            "req {key} -keyout server.key -out server.csr -subj /CN=localhost"
        ));
        openssl(
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.pem",
        );
        Certificates {
            authority: folder.join("ca.pem"),
            certificate: folder.join("server.pem"),
            key: folder.join("server.key"),
        }
    }

    /// Starts a proxy with this certificate in front of the target, and returns its port.
    async fn serve(&self, target: &str) -> u16 {
        let chain = CertificateDer::pem_file_iter(&self.certificate).expect("a certificate");
        let chain = chain.collect::<Result<_, _>>().expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&self.key).expect("a key");
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a configuration");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let target = target.to_string();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (acceptor, target) = (acceptor.clone(), target.clone());
                tokio::spawn(async move {
                    // A client that does not trust the certificate disconnects here.
                    let Ok(mut near) = acceptor.accept(near).await else {
                        return;
                    };
                    let mut far = TcpStream::connect(target).await.expect("the node");
                    let _ = copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        port
    }
}

#[tokio::test]
async fn https_verifies_the_certificate() {
    let node = SingleNode::up(&["--name", "solo"]);
    let certificates = Certificates::create(node.system.folder.path());
    let port = certificates.serve(node.system.http()).await;
    let authority = text(&certificates.authority);
    for host in ["localhost", "127.0.0.1"] {
        let cli = ConclaveCli::new(&format!("https://{host}:{port}"));
        let said = cli
            .run(&["run", "--ca-file", authority, "--", "echo", "sealed"])
            .await
            .assert_success();
        assert_eq!(said.text(), "sealed\n");
        cli.run(&["--ca-file", authority, "stats"]).await.assert_success();
        let mut command = cli.command(&["search", "--json"]);
        let child = command.env("CONCLAVE_CA_FILE", authority).spawn().unwrap();
        assert!(
            !cluster_tests::CommandOutput::of(child)
                .await
                .assert_success()
                .json_lines()
                .is_empty()
        );
        cli.run(&["stats"]).await.assert_failure(
            1,
            &[
                "certificate",
                &format!("{host}:{port}"),
                "--ca-file",
                "CONCLAVE_CA_FILE",
            ],
        );
        cli.run(&["run", "--", "true"])
            .await
            .assert_failure(125, &["--ca-file"]);
    }
    let cli = ConclaveCli::new(&format!("https://127.0.0.1:{port}"));
    for (file, words) in [
        ("/nowhere/ca.pem", "/nowhere/ca.pem"),
        (text(&certificates.key), "no certificate"),
    ] {
        cli.run(&["stats", "--ca-file", file])
            .await
            .assert_failure(1, &[words]);
    }
    // A server without TLS.
    ConclaveCli::new(&node.system.url("").replace("http:", "https:"))
        .run(&["stats", "--ca-file", authority])
        .await
        .assert_failure(1, &["TLS"]);
    node.cli.run(&["stats"]).await.assert_success();
}

/// A server that redirects every request to the target.
async fn redirect_to(target: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let answer =
        format!("HTTP/1.1 307 Moved\r\nLocation: {target}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = near.read(&mut request).await;
            let _ = near.write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test]
async fn redirects_are_followed_but_not_from_http_to_https() {
    let node = SingleNode::up(&["--slots", "0"]);
    let near = redirect_to(&node.system.url("/api/v1/stats")).await;
    ConclaveCli::new(&format!("http://{near}"))
        .run(&["stats"])
        .await
        .assert_success();
    let near = redirect_to("https://127.0.0.1:1/api/v1/stats").await;
    ConclaveCli::new(&format!("http://{near}"))
        .run(&["stats"])
        .await
        .assert_failure(
            1,
            &["redirects to https://127.0.0.1:1; give that URL", "--server"],
        );
}
