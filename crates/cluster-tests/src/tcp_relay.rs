//! A TCP relay between two nodes that can stop forwarding without closing connections.

use std::future::pending;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A TCP relay between two nodes under test that can stop forwarding without closing connections. It runs as long as
/// the test's runtime.
pub struct TcpRelay {
    pub address: String,
    forwarding: watch::Sender<Forwarding>,
}

/// Which connections a test's TCP relay forwards.
#[derive(Clone, Copy, PartialEq)]
enum Forwarding {
    /// Connections of this generation. Silencing the current connections starts the next generation.
    Since(u32),
    Nothing,
}

impl TcpRelay {
    pub async fn start(target: &str) -> Result<TcpRelay> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (forwarding, changes) = watch::channel(Forwarding::Since(0));
        tokio::spawn(accept(listener, target.to_string(), changes));
        Ok(TcpRelay { address, forwarding })
    }

    /// Stops forwarding on current connections without closing them. Later connections are forwarded.
    pub fn silence_connections(&self) {
        self.forwarding.send_modify(|forwarding| {
            if let Forwarding::Since(times) = forwarding {
                *times += 1;
            }
        });
    }

    /// Stops forwarding on all connections, and accepts no further ones; the kernel still completes handshakes.
    pub fn silence(&self) {
        self.forwarding.send_replace(Forwarding::Nothing);
    }
}

async fn accept(listener: TcpListener, target: String, mut changes: watch::Receiver<Forwarding>) {
    loop {
        let forwarding = *changes.borrow_and_update();
        if forwarding == Forwarding::Nothing {
            // The listener stays open.
            pending::<()>().await;
        }
        tokio::select! {
            Ok((near, _)) = listener.accept() => {
                tokio::spawn(forward(near, target.clone(), forwarding, changes.clone()));
            }
            _ = changes.changed() => {}
        }
    }
}

async fn forward(
    mut near: TcpStream,
    target: String,
    forwarding: Forwarding,
    mut changes: watch::Receiver<Forwarding>,
) {
    let Ok(mut far) = TcpStream::connect(&target).await else {
        return;
    };
    let silenced = async { changes.wait_for(|now| *now != forwarding).await.is_ok() };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => return,
        _ = silenced => {}
    }
    // Both ends stay open.
    pending().await
}
