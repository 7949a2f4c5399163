//! TLS and redirects of the HTTP client.

use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder, Url};

use super::HttpClientError;

/// The number of redirects that the client follows within one scheme.
const REDIRECTS: usize = 10;

/// Trusts the system's certificate authorities and the given ones for `https://`.
pub(super) fn configure(
    builder: ClientBuilder,
    base: &Url,
    ca_certificates: Option<&[u8]>,
) -> Result<ClientBuilder, HttpClientError> {
    // Fails if a provider is installed already, which is the same one in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ca_certificates = match ca_certificates {
        Some(pem) => parse(pem)?,
        None => Vec::new(),
    };
    let builder = builder.redirect(Policy::custom(|attempt| {
        let from = attempt.previous().last().map(Url::scheme);
        // One of the two requests, with its token, is not encrypted; the user has to choose the other address.
        if from.is_some_and(|scheme| scheme != attempt.url().scheme()) {
            let target = attempt.url().origin().ascii_serialization();
            return attempt.error(target);
        }
        match attempt.previous().len() > REDIRECTS {
            true => attempt.stop(),
            false => attempt.follow(),
        }
    }));
    Ok(match base.scheme() {
        "https" => builder.tls_certs_merge(ca_certificates),
        // Loading the system's certificates takes time and fails where there are none; plain HTTP does not need them.
        _ => builder.tls_certs_only(ca_certificates),
    })
}

fn parse(pem: &[u8]) -> Result<Vec<Certificate>, HttpClientError> {
    let invalid = |problem: String| HttpClientError::CaCertificates(problem);
    let certificates = Certificate::from_pem_bundle(pem).map_err(|error| invalid(error.to_string()))?;
    match certificates.is_empty() {
        true => Err(invalid("it contains no certificate in PEM format".into())),
        false => Ok(certificates),
    }
}
