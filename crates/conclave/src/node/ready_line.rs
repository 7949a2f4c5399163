//! The line on stdout that says that a node is ready. `conclave bench` and scripts parse it.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use crate::print::{Stdout, is_closed_pipe};

/// The line that a node prints to stdout when it is ready: its addresses, slots, data folder and process id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadyLine {
    pub(crate) command: &'static str,
    /// Schemes and addresses, like `http` and `127.0.0.1:7000`.
    pub(crate) addresses: Vec<(&'static str, String)>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) slots: Option<u32>,
}

impl ReadyLine {
    /// A closed stdout is no error: the program that started the node need not read this line.
    pub(crate) fn print(&self) -> Result<()> {
        match Stdout::open().line(self) {
            Err(error) if is_closed_pipe(&error) => Ok(()),
            result => result,
        }
    }
}

impl fmt::Display for ReadyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conclave {} is serving:", self.command)?;
        for (scheme, address) in &self.addresses {
            write!(f, " {scheme}://{address},")?;
        }
        if let Some(slots) = self.slots {
            write!(f, " slots {slots},")?;
        }
        if let Some(data) = &self.data {
            write!(f, " data {},", data.display())?;
        }
        write!(f, " pid {}", std::process::id())
    }
}

#[cfg(test)]
mod tests {
    use bench::address_in_ready_line;

    use super::*;

    #[test]
    fn the_line_can_be_parsed() {
        let ready_line = ReadyLine {
            command: "up",
            addresses: vec![
                ("http", "127.0.0.1:7000".to_string()),
                ("rpc", "[::1]:7010".to_string()),
            ],
            data: Some(PathBuf::from("/srv/c")),
            slots: Some(2),
        };
        let line = ready_line.to_string();
        assert_eq!(
            line,
            format!(
                "conclave up is serving: http://127.0.0.1:7000, rpc://[::1]:7010, slots 2, data /srv/c, pid {}",
                std::process::id()
            )
        );
        assert_eq!(address_in_ready_line(&line, "http"), Some("127.0.0.1:7000"));
        assert_eq!(address_in_ready_line(&line, "rpc"), Some("[::1]:7010"));
        assert_eq!(address_in_ready_line(&line, "ftp"), None);
    }
}
