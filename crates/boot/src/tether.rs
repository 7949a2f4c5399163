//! The line between boot and a service, seen from the service.
//!
//! Boot hands every service one end of a socket as its standard input. The service tells what there is to tell on
//! it, a line for each thing; boot never writes. When boot is gone, however it went, the line ends, and the
//! service ends too: nothing that boot started lives on as a stranger.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use nix::sys::stat::{SFlag, fstat};
use tokio::net::UnixStream;

/// What a service says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It serves: whoever needs it may start.
    Ready,
    /// The process that does the work, where the service is a wrapper around another program.
    Server(u32),
    /// What it is doing meanwhile, for `conclave status`.
    Doing(String),
    /// Why it is about to end, for boot's log and `conclave status`.
    Failed(String),
}

impl Word {
    pub fn line(&self) -> String {
        match self {
            Word::Ready => "ready\n".to_string(),
            Word::Server(pid) => format!("server {pid}\n"),
            Word::Doing(what) => format!("doing {}\n", what.replace('\n', " ")),
            Word::Failed(why) => format!("failed {}\n", why.replace('\n', " ")),
        }
    }

    /// `None` for a line of a version that knows more words than this one.
    pub fn parse(line: &str) -> Option<Word> {
        match line.trim_end().split_once(' ') {
            None if line.trim_end() == "ready" => Some(Word::Ready),
            Some(("server", pid)) => pid.parse().ok().map(Word::Server),
            Some(("doing", what)) => Some(Word::Doing(what.to_string())),
            Some(("failed", why)) => Some(Word::Failed(why.to_string())),
            _ => None,
        }
    }
}

/// A service's end of the line. A service that was started by hand has none: it says nothing and waits for nobody.
#[derive(Clone, Debug)]
pub struct Tether(Option<Arc<UnixStream>>);

impl Tether {
    /// Takes standard input for the line if it is a socket. To be called once, inside the runtime.
    pub fn from_stdin() -> io::Result<Tether> {
        let stdin = io::stdin();
        if !is_socket(&stdin) {
            return Ok(Tether(None));
        }
        let stream = std::os::unix::net::UnixStream::from(stdin.as_fd().try_clone_to_owned()?);
        stream.set_nonblocking(true)?;
        Ok(Tether(Some(Arc::new(UnixStream::from_std(stream)?))))
    }

    /// For what runs without boot.
    pub fn none() -> Tether {
        Tether(None)
    }

    /// Never waits: if boot does not listen (it may be stopped), the word is lost, and so be it.
    pub fn say(&self, word: &Word) {
        if let Some(line) = &self.0 {
            // A word is far shorter than a socket's buffer: it goes whole or not at all. Past the runtime, which
            // takes a line that it has just been given for one that cannot be written to.
            let _ = nix::unistd::write(line, word.line().as_bytes());
        }
    }

    /// Returns when boot is gone. Never, where there was none.
    pub async fn boot_gone(&self) {
        let Some(line) = &self.0 else {
            return std::future::pending().await;
        };
        while line.readable().await.is_ok() {
            match line.try_read(&mut [0]) {
                Ok(1..) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// Says why the service is about to end, where it has no tether: not yet, or no more.
pub fn say_why(why: &str) {
    let stdin = io::stdin();
    if is_socket(&stdin) {
        let _ = nix::unistd::write(&stdin, Word::Failed(why.to_string()).line().as_bytes());
    }
}

fn is_socket(stdin: &io::Stdin) -> bool {
    fstat(stdin.as_fd())
        .is_ok_and(|stat| SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_they_were_written() {
        for word in [
            Word::Ready,
            Word::Server(17),
            Word::Doing("waiting for 3 addresses".into()),
            Word::Failed("the port 2379 is taken".into()),
        ] {
            assert_eq!(Word::parse(&word.line()), Some(word));
        }
        for line in ["", "server x", "dancing", "ready now"] {
            assert_eq!(Word::parse(line), None, "{line}");
        }
    }
}
