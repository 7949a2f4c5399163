//! Stands between a node and another that it calls, and can fall silent without hanging up.

use std::future::pending;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Lasts as long as the test's runtime.
pub struct Relay {
    pub address: String,
    hearing: watch::Sender<Hearing>,
}

#[derive(Clone, Copy, PartialEq)]
enum Hearing {
    /// Connections made after the relay fell silent for the how-manieth time carry what is sent.
    Since(u32),
    Nobody,
}

impl Relay {
    pub async fn start(target: &str) -> Result<Relay> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let (hearing, changes) = watch::channel(Hearing::Since(0));
        tokio::spawn(accept(listener, target.to_string(), changes));
        Ok(Relay { address, hearing })
    }

    /// What is connected now carries nothing any more, and nobody is told. Later connections are as new.
    pub fn silence_connections(&self) {
        self.hearing.send_modify(|hearing| {
            if let Hearing::Since(times) = hearing {
                *times += 1;
            }
        });
    }

    /// The same for later connections too: the kernel makes them, but nobody listens.
    pub fn silence(&self) {
        self.hearing.send_replace(Hearing::Nobody);
    }
}

async fn accept(listener: TcpListener, target: String, mut changes: watch::Receiver<Hearing>) {
    loop {
        let hearing = *changes.borrow_and_update();
        if hearing == Hearing::Nobody {
            // The listener stays open.
            pending::<()>().await;
        }
        tokio::select! {
            Ok((near, _)) = listener.accept() => {
                tokio::spawn(carry(near, target.clone(), hearing, changes.clone()));
            }
            _ = changes.changed() => {}
        }
    }
}

async fn carry(mut near: TcpStream, target: String, hearing: Hearing, mut changes: watch::Receiver<Hearing>) {
    let Ok(mut far) = TcpStream::connect(&target).await else {
        return;
    };
    let silenced = async { changes.wait_for(|now| *now != hearing).await.is_ok() };
    tokio::select! {
        _ = copy_bidirectional(&mut near, &mut far) => return,
        _ = silenced => {}
    }
    // Both ends stay open.
    pending().await
}
