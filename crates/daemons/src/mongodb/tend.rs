//! On the primary: keeps the replica set as it is registered, one change at a time.

use super::MongodbError;
use super::admin::{AdminError, SeatStatus};
use super::config::SetConfig;
use super::diff::{self, Change, Seat, View};
use super::records::{Incarnation, Records, SeatSeen, SetSeen};
use super::work::{Pace, Work};

/// One look, and at most one change: the first that mongod takes.
pub(crate) async fn round(work: &mut Work) -> Result<Pace, MongodbError> {
    // First what is registered, then the config: what the config does not have by then is not added later, unless
    // it is registered later.
    let records = work.etcd.read().await?;
    let (config, in_force) = work.local.config_in_force().await?;
    let status = work.local.status().await?;
    let seats = config.seats();
    publish(work, &records, &seats, &status).await?;
    if !in_force {
        return Ok(Pace::Soon);
    }
    mark_gone(work, &records, &seats).await?;
    let secondaries: Vec<String> = status
        .into_iter()
        .filter(|seat| seat.state == "secondary")
        .map(|seat| seat.address)
        .collect();
    let own = work.note.incarnation.clone();
    let view = View {
        seats: &seats,
        records: &records,
        secondaries: &secondaries,
        own: &own,
    };
    let changes = diff::changes(&view);
    let is_waiting = diff::is_waiting(&view);
    let mut refusals = Vec::new();
    for change in &changes {
        match apply(work, &config, change).await {
            Err(AdminError::Refused { code, message, .. }) => {
                refusals.push(format!("mongod refuses to {change}: {message} (code {code})"));
            }
            done => {
                done?;
                return Ok(Pace::Now);
            }
        }
    }
    work.tell_refusals(refusals);
    Ok(match (changes.is_empty(), is_waiting) {
        (false, _) => Pace::Slowly,
        (true, true) => Pace::Soon,
        (true, false) => Pace::Later,
    })
}

/// Never by force: a config that a majority does not take is no config.
async fn apply(work: &Work, config: &SetConfig, change: &Change) -> Result<(), AdminError> {
    let next = config.with(change);
    work.local.reconfigure(&next).await?;
    match change {
        Change::Remove(seat) => tracing::info!(address = seat.address, "removed from the replica set"),
        Change::Add(seat) => tracing::info!(address = seat.address, "added to the replica set"),
        Change::Promote(seat) => tracing::info!(address = seat.address, "given a vote"),
        Change::Name(seat) => tracing::info!(address = seat.address, "named in the replica set"),
        Change::Move { from, to } => tracing::info!(from, to, "moved in the replica set"),
    }
    Ok(())
}

/// Tells those who wait for it: whoever left is in no config that is in force, and cannot come back into one.
async fn mark_gone(work: &mut Work, records: &Records, seats: &[Seat]) -> Result<(), MongodbError> {
    let is_seated = |incarnation: &Incarnation| {
        seats
            .iter()
            .any(|seat| seat.incarnation.as_ref() == Some(incarnation))
    };
    for (incarnation, left) in &records.left {
        if !left.gone && !is_seated(incarnation) {
            work.etcd.mark_gone(incarnation, left).await?;
        }
    }
    Ok(())
}

async fn publish(
    work: &mut Work,
    records: &Records,
    seats: &[Seat],
    status: &[SeatStatus],
) -> Result<(), MongodbError> {
    let state_of = |address: &str| {
        let seat = status.iter().find(|seat| seat.address == address);
        seat.map_or("unknown".to_string(), |seat| seat.state.clone())
    };
    let members = seats
        .iter()
        .map(|seat| SeatSeen {
            name: seat.name.clone().unwrap_or_default(),
            address: seat.address.clone(),
            incarnation: seat.incarnation.clone(),
            state: state_of(&seat.address),
            votes: seat.votes,
        })
        .collect();
    let seen = SetSeen {
        primary: work.options.name.clone(),
        members,
    };
    if records.set.as_ref() != Some(&seen) {
        work.etcd.publish(&seen).await?;
    }
    Ok(())
}
