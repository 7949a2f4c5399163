//! Mutual TLS on the peer port, as etcd itself does it: client and server both present a certificate.

use std::io;
use std::path::Path;
use std::sync::Arc;

use registry::etcd::EtcdTls;
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig, crypto};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::oid::ObjectIdentifier;

/// Connects to the etcd peer port of another node over mutual TLS, with this node's certificate.
#[derive(Clone)]
pub(crate) struct PeerTlsConnector(TlsConnector);

/// Accepts mutual TLS on this node's etcd peer port, until etcd itself needs the port. It accepts only clients whose
/// certificate the cluster's authority has signed.
#[derive(Clone)]
pub(crate) struct PeerTlsAcceptor(TlsAcceptor);

impl PeerTlsConnector {
    pub(crate) fn new(tls: &EtcdTls) -> io::Result<PeerTlsConnector> {
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_root_certificates(roots(tls)?)
            .with_client_auth_cert(read_certificates(&tls.cert)?, read_key(tls)?)
            .map_err(io::Error::other)?;
        Ok(PeerTlsConnector(TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn connect(
        &self,
        host_port: &str,
        stream: TcpStream,
    ) -> io::Result<client::TlsStream<TcpStream>> {
        let host = host_port.rsplit_once(':').map_or(host_port, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

impl PeerTlsAcceptor {
    pub(crate) fn new(tls: &EtcdTls) -> io::Result<PeerTlsAcceptor> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(tls)?), provider())
            .build()
            .map_err(io::Error::other)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(read_certificates(&tls.cert)?, read_key(tls)?)
            .map_err(io::Error::other)?;
        Ok(PeerTlsAcceptor(TlsAcceptor::from(Arc::new(config))))
    }

    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        self.0.accept(stream).await
    }
}

fn provider() -> Arc<crypto::CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}

fn roots(tls: &EtcdTls) -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in read_certificates(&tls.ca)? {
        roots.add(certificate).map_err(io::Error::other)?;
    }
    Ok(roots)
}

/// All certificates of a PEM file, in the order of the file.
pub(crate) fn read_certificates(path: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let unreadable = |error| io::Error::other(format!("could not read certificates from {path:?}: {error}"));
    CertificateDer::pem_file_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)
}

fn read_key(tls: &EtcdTls) -> io::Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(&tls.key)
        .map_err(|error| io::Error::other(format!("could not read a key from {:?}: {error}", tls.key)))
}

/// id-at-commonName
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// The common name in the subject of a certificate in DER form. `None` if it has none, or if it cannot be parsed: etcd
/// then reports what is wrong with it.
pub(crate) fn common_name(certificate: &[u8]) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let mut subject = certificate.tbs_certificate().subject().iter();
    let attribute = subject.find(|attribute| attribute.oid == COMMON_NAME)?;
    let text = String::from_utf8_lossy(attribute.value.value()).into_owned();
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let mut encoded = vec![tag];
        match u8::try_from(content.len()).unwrap() {
            short @ ..0x80 => encoded.push(short),
            long => encoded.extend([0x81, long]),
        }
        encoded.extend(content);
        encoded
    }

    fn attribute(kind: u8, text: &str) -> Vec<u8> {
        let pair = [der(6, &[0x55, 4, kind]), der(0x0c, text.as_bytes())].concat();
        der(0x31, &der(0x30, &pair))
    }

    fn certificate(version: &[u8], subject: &[Vec<u8>]) -> Vec<u8> {
        let ed25519 = der(0x30, &der(6, &[0x2b, 0x65, 0x70]));
        let time = der(0x17, b"260101000000Z");
        let bits = der(3, &[0; 33]);
        let signed = [
            version.to_vec(),
            der(2, &[1]),
            ed25519.clone(),
            der(0x30, &attribute(3, "issuer")),
            der(0x30, &[time.clone(), time].concat()),
            der(0x30, &subject.concat()),
            der(0x30, &[ed25519.clone(), bits.clone()].concat()),
        ];
        der(0x30, &[der(0x30, &signed.concat()), ed25519, bits].concat())
    }

    #[test]
    fn only_the_common_name_of_the_subject_is_found() {
        let version_3 = der(0xa0, &der(2, &[2]));
        for version in [&version_3[..], &[]] {
            for (subject, found) in [
                (&[][..], None),
                (&[attribute(10, "org")], None),
                (&[attribute(3, "")], None),
                (&[attribute(3, "node")], Some("node")),
                (&[attribute(10, "org"), attribute(3, "node")], Some("node")),
            ] {
                let whole = certificate(version, subject);
                assert!(Certificate::from_der(&whole).is_ok(), "{subject:?}");
                assert_eq!(common_name(&whole).as_deref(), found, "{subject:?}");
                for end in 0..whole.len() {
                    assert_eq!(common_name(&whole[..end]), None, "cut off at {end}");
                }
            }
        }
    }
}
