//! Certificates on the port for peers, as etcd itself asks for them there: both sides show theirs.

use std::io;
use std::sync::Arc;

use registry::etcd::Tls;
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

#[derive(Clone)]
pub(crate) struct Connector(TlsConnector);

#[derive(Clone)]
pub(crate) struct Acceptor(TlsAcceptor);

impl Connector {
    pub(crate) fn new(tls: &Tls) -> io::Result<Connector> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots(tls)?)
            .with_client_auth_cert(chain(tls)?, key(tls)?)
            .map_err(io::Error::other)?;
        Ok(Connector(TlsConnector::from(Arc::new(config))))
    }

    /// `at` is `host:port`.
    pub(crate) async fn connect(
        &self,
        at: &str,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let host = at.rsplit_once(':').map_or(at, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

impl Acceptor {
    pub(crate) fn new(tls: &Tls) -> io::Result<Acceptor> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(tls)?), provider())
            .build()
            .map_err(io::Error::other)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain(tls)?, key(tls)?)
            .map_err(io::Error::other)?;
        Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}

fn provider() -> Arc<crypto::CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}

fn roots(tls: &Tls) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&tls.ca)? {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    Ok(roots)
}

fn chain(tls: &Tls) -> io::Result<Vec<CertificateDer<'static>>> {
    certificates(&tls.cert)
}

pub(crate) fn certificates(path: &std::path::Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let unreadable = |error| io::Error::other(format!("could not read certificates from {path:?}: {error}"));
    CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)
}

fn key(tls: &Tls) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| io::Error::other(format!("could not read a key from {:?}: {error}", tls.key)))
}
