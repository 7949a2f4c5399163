//! Which servers a client believes to be who they say they are.

use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder, Url};

use super::ClientError;

/// As many as browsers follow, within one scheme.
const REDIRECTS: usize = 10;

/// For `https://` the system's authorities count, and those given.
pub(super) fn set_up(
    builder: ClientBuilder,
    base: &Url,
    authorities: Option<&[u8]>,
) -> Result<ClientBuilder, ClientError> {
    // Another part of the process may have chosen the same before; there is no other in this program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let authorities = match authorities {
        Some(pem) => parse(pem)?,
        None => Vec::new(),
    };
    let builder = builder.redirect(Policy::custom(|attempt| {
        let from = attempt.previous().last().map(Url::scheme);
        // What was said before the redirect, a token as well, went over an open line.
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
        "https" => builder.tls_certs_merge(authorities),
        // The system's authorities are many files to read, and there may be none.
        _ => builder.tls_certs_only(authorities),
    })
}

fn parse(pem: &[u8]) -> Result<Vec<Certificate>, ClientError> {
    let wrong = |problem: String| ClientError::Authorities(problem);
    let certificates = Certificate::from_pem_bundle(pem).map_err(|error| wrong(error.to_string()))?;
    match certificates.is_empty() {
        true => Err(wrong("it holds no certificate in PEM form".into())),
        false => Ok(certificates),
    }
}
