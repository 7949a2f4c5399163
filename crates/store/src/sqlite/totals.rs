//! The sums of the ledger, which are kept rather than counted.

use model::{Counts, Status};
use rusqlite::Connection;

use super::failure::{During, Failure};
use crate::Totals;

pub(super) fn totals(connection: &Connection) -> Result<Totals, Failure> {
    const STEP: &str = "read the ledger";
    let mut statement = connection
        .prepare_cached("SELECT name, value FROM ledger")
        .during(STEP)?;
    let mut rows = statement.query([]).during(STEP)?;
    let mut totals = Totals {
        counts: Counts::new(),
        held: 0,
    };
    while let Some(row) = rows.next().during(STEP)? {
        let name: String = row.get(0).during(STEP)?;
        let value: i64 = row.get(1).during(STEP)?;
        let value = u64::try_from(value).unwrap_or(0);
        match name.parse::<Status>() {
            Ok(status) => drop(totals.counts.insert(status, value)),
            Err(_) if name == "held" => totals.held = value,
            Err(_) => {}
        }
    }
    Ok(totals)
}
