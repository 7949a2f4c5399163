//! A bound on the tokens that one client can guess at the sign-in page.

use std::sync::Arc;
use std::time::Duration;

use model::UserName;

use crate::Tokens;
use crate::quota_key::QuotaKey;
use crate::quota_pool::{LimitedResource, QuotaExceeded, QuotaPool};

/// How long a wrong guess holds its permit.
pub(crate) const GUESS_PAUSE: Duration = Duration::from_secs(10);

/// The sign-ins of all clients in a `GUESS_PAUSE` that may fail.
const MAX_GUESSES: u64 = 1000;
/// The percentage of them that one address may have: ten.
const ADDRESS_SHARE_PERCENT: u32 = 1;

/// The permits for sign-ins. A caller's share of 100 percent means that all clients have the address of one proxy.
pub(crate) fn guess_pool(caller_share_percent: u32) -> Arc<QuotaPool> {
    let share = match caller_share_percent {
        100.. => 100,
        _ => ADDRESS_SHARE_PERCENT,
    };
    QuotaPool::new(LimitedResource::SignIns, MAX_GUESSES, share)
}

/// The user of a token that someone enters. Fails if this address has entered too many wrong ones; the right one is not
/// accepted then either, as it may be a guess.
pub(crate) fn user_of_guess(
    pool: &Arc<QuotaPool>,
    address: &QuotaKey,
    tokens: &Tokens,
    token: &str,
) -> Result<Option<UserName>, QuotaExceeded> {
    let permit = pool.acquire(address, 1)?;
    let user = tokens.user(token);
    if user.is_none() {
        // Not the request waits, because a client that guesses would close its connection.
        #[expect(
            clippy::disallowed_methods,
            reason = "ends by itself, and the pool bounds the number"
        )]
        tokio::spawn(async move {
            tokio::time::sleep(GUESS_PAUSE).await;
            drop(permit);
        });
    }
    Ok(user)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn wrong_guesses_of_one_address_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, "0123456789abcdef ada\n").unwrap();
        let tokens = Tokens::load(&path).unwrap();
        let address = |last| QuotaKey::from(IpAddr::from(Ipv4Addr::new(10, 0, 0, last)));
        let pool = guess_pool(50);
        let guess = |last, token| user_of_guess(&pool, &address(last), &tokens, token);
        for _ in 0..50 {
            assert!(guess(1, "0123456789abcdef").unwrap().is_some());
        }
        for _ in 0..10 {
            assert_eq!(guess(1, "wrong").unwrap(), None);
        }
        assert_eq!(guess(1, "0123456789abcdef").unwrap_err().limit, 10);
        assert!(guess(2, "0123456789abcdef").unwrap().is_some());

        tokio::time::sleep(GUESS_PAUSE + Duration::from_millis(1)).await;
        assert!(guess(1, "0123456789abcdef").unwrap().is_some());
        assert_eq!(guess(1, "wrong").unwrap(), None);
    }
}
