//! The one line that says that a node serves. People read it, and so does `conclave bench`.

use std::fmt;
use std::path::PathBuf;

use anyhow::Result;

use crate::print::{Out, is_closed_pipe};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Serving {
    pub(crate) verb: &'static str,
    /// What and where, like `http` and `127.0.0.1:7000`.
    pub(crate) addresses: Vec<(&'static str, String)>,
    pub(crate) data: Option<PathBuf>,
    pub(crate) slots: Option<u32>,
}

impl Serving {
    /// Whoever started us may wait for this line, and may also not read it at all.
    pub(crate) fn announce(&self) -> Result<()> {
        match Out::open().line(self) {
            Err(error) if is_closed_pipe(&error) => Ok(()),
            said => said,
        }
    }
}

impl fmt::Display for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conclave {} is serving:", self.verb)?;
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

/// The address that a serving line names for a scheme.
pub(crate) fn address<'a>(line: &'a str, scheme: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {scheme}://"))?;
    rest.split(',').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_can_be_read_again() {
        let serving = Serving {
            verb: "up",
            addresses: vec![
                ("http", "127.0.0.1:7000".to_string()),
                ("rpc", "[::1]:7010".to_string()),
            ],
            data: Some(PathBuf::from("/srv/c")),
            slots: Some(2),
        };
        let line = serving.to_string();
        assert_eq!(
            line,
            format!(
                "conclave up is serving: http://127.0.0.1:7000, rpc://[::1]:7010, slots 2, data /srv/c, pid {}",
                std::process::id()
            )
        );
        assert_eq!(address(&line, "http"), Some("127.0.0.1:7000"));
        assert_eq!(address(&line, "rpc"), Some("[::1]:7010"));
        assert_eq!(address(&line, "ftp"), None);
    }
}
