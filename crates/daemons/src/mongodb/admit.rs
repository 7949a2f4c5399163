//! Whether this node may start with the data it has, in the cluster that it finds. Decided before anything is
//! changed anywhere.

use std::path::PathBuf;

use thiserror::Error;

use super::diff::Seat;
use super::notes::Notes;
use super::records::{Incarnation, Records};
use super::{Options, secret};

#[derive(Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    #[error(
        "this node has left the cluster; its data is kept in {folder}. To join anew, move that folder away first"
    )]
    Left { folder: PathBuf },
    #[error(
        "{folder} holds data, but no note of this daemon about it; move it away, or correct the data folder"
    )]
    NotOurs { folder: PathBuf },
    #[error(
        "{folder} holds data of the replica set {found}, not of {wanted}; correct mongodb.set or the data folder"
    )]
    OtherSet {
        folder: PathBuf,
        found: String,
        wanted: String,
    },
    #[error("the cluster's replica set is {found}, not {wanted}; correct mongodb.set")]
    SetName { found: String, wanted: String },
    #[error(
        "{folder} holds data of another cluster; correct the data folder or the addresses of etcd. If etcd was set \
         up anew for this data, remove the file `cluster` in it"
    )]
    OtherCluster { folder: PathBuf },
    #[error("{folder} was set up with another cluster secret; give the right secrets.cluster_file")]
    FolderSecret { folder: PathBuf },
    #[error("{address} asks for another cluster secret than ours; give the right secrets.cluster_file")]
    Secret { address: String },
    #[error(
        "{address} is registered by the node {by}; choose another mongodb.port, or `conclave remove {by}` if it is gone"
    )]
    Address { address: String, by: String },
    #[error(
        "{address} is another member's seat in the replica set: of data that was lost, or of a node that had this \
         address before. To join anew, move {folder} away first"
    )]
    OtherSeat { address: String, folder: PathBuf },
    #[error("a node named {name} runs at {address}; give this one another node.name")]
    Name { name: String, address: String },
}

/// What can be told from the folder alone.
pub(crate) fn by_folder(options: &Options, notes: &Notes) -> Result<(), Refusal> {
    let folder = || options.data.clone();
    if notes.left {
        return Err(Refusal::Left { folder: folder() });
    }
    if !notes.has_data {
        return Ok(());
    }
    let Some(member) = &notes.member else {
        return Err(Refusal::NotOurs { folder: folder() });
    };
    if member.set != options.set {
        return Err(Refusal::OtherSet {
            folder: folder(),
            found: member.set.clone(),
            wanted: options.set.clone(),
        });
    }
    // A secret that is new to the folder is taken up: an operator may add one to a cluster that had none, or correct
    // one that never got a node into the set. That a wrong one is not, the others see to.
    let given = options.secret.as_deref().map(secret::key);
    match &notes.key {
        Some(kept) if member.replica_set.is_some() && given.as_ref() != Some(kept) => {
            Err(Refusal::FolderSecret { folder: folder() })
        }
        _ => Ok(()),
    }
}

/// What can be told from the folder and etcd together.
pub(crate) fn by_records(options: &Options, notes: &Notes, records: &Records) -> Result<(), Refusal> {
    let folder = || options.data.clone();
    if let Some(initiated) = &records.initiated
        && initiated.set != options.set
    {
        return Err(Refusal::SetName {
            found: initiated.set.clone(),
            wanted: options.set.clone(),
        });
    }
    let address = options.address();
    let other = records
        .members
        .iter()
        .find(|(name, member)| **name != options.name && member.address == address);
    if let Some((by, _)) = other {
        return Err(Refusal::Address {
            address,
            by: by.clone(),
        });
    }
    let known = notes.member.as_ref();
    if let Some(member) = known.filter(|member| notes.has_data || !member.started)
        && let Some(left) = records.left.get(&member.incarnation)
        // Until the set is rid of it, it may be needed for just that.
        && (left.gone || !member.started || records.initiated.is_none())
    {
        return Err(Refusal::Left { folder: folder() });
    }
    let Some(member) = known.filter(|_| notes.has_data) else {
        return Ok(());
    };
    let cluster_set = records.initiated.as_ref().map(|initiated| &initiated.id);
    let known = match (&member.replica_set, cluster_set) {
        (Some(ours), Some(theirs)) => Some(ours == theirs),
        _ => None,
    };
    let same_etcd = notes
        .cluster
        .as_ref()
        .is_none_or(|cluster| *cluster == cluster_name(records));
    // An etcd that was restored from a backup has another id but the same records.
    match known.unwrap_or(same_etcd) {
        true => Ok(()),
        false => Err(Refusal::OtherCluster { folder: folder() }),
    }
}

/// Whether mongod may be started on an empty folder, by a seat at its address in the replica set. It would be taken
/// for whoever the seat is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seating {
    /// The seat is for it, and has no vote before there is data.
    Fine,
    /// The seat is for data that is lost, and has to be marked as left.
    Lost(Incarnation),
    /// The primary gave a seat that was put there by hand the incarnation of this folder, which has never been a
    /// member. The folder has to become another.
    Mistaken,
    /// Somebody else will do something about it.
    Taken,
}

pub(crate) fn by_seat(own: &Incarnation, seat: &Seat, records: &Records) -> Seating {
    match &seat.incarnation {
        Some(sitter) if sitter == own && seat.votes == 0 => Seating::Fine,
        Some(sitter) if sitter == own => Seating::Mistaken,
        // It is at another address now; the seat moves.
        Some(sitter)
            if records
                .members
                .values()
                .any(|member| member.incarnation == *sitter) =>
        {
            Seating::Taken
        }
        Some(sitter) => Seating::Lost(sitter.clone()),
        // The primary names it after whoever is registered for the address.
        None => Seating::Taken,
    }
}

/// An etcd cluster as the note `cluster` names it.
pub(crate) fn cluster_name(records: &Records) -> String {
    format!("{:016x}", records.cluster)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::notes::MemberNote;
    use super::super::records::{Initiated, Left, Member};
    use super::*;

    pub(crate) fn options() -> Options {
        Options {
            name: "a".into(),
            program: "mongod".into(),
            data: "/d".into(),
            host: "h".into(),
            port: 1,
            set: "s".into(),
            tries: 1,
            cache: None,
            secret: Some("secret".into()),
            etcd: registry::etcd::Access {
                endpoints: Vec::new(),
                login: None,
                tls: None,
                cluster: None,
            },
            lease: std::time::Duration::from_secs(1),
            leash: Vec::new(),
        }
    }

    /// A member that runs well.
    fn notes() -> Notes {
        Notes {
            has_data: true,
            member: Some(MemberNote {
                incarnation: "a1".into(),
                set: "s".into(),
                started: true,
                replica_set: Some("x".into()),
            }),
            cluster: Some("0000000000000007".into()),
            key: Some(secret::key("secret")),
            left: false,
        }
    }

    fn records() -> Records {
        let mut records = Records {
            cluster: 7,
            initiated: Some(Initiated {
                set: "s".into(),
                by: "b".into(),
                id: "x".into(),
            }),
            ..Records::default()
        };
        for (name, address) in [("a", "h:1"), ("b", "h:2")] {
            let incarnation = format!("{name}1").as_str().into();
            let address = address.to_string();
            records
                .members
                .insert(name.into(), Member { address, incarnation });
        }
        records
    }

    #[test]
    fn by_what_is_in_the_folder() {
        let check = |alter: fn(&mut Notes, &mut Options), expected: &str| {
            let (mut notes, mut options) = (notes(), options());
            alter(&mut notes, &mut options);
            let told =
                by_folder(&options, &notes).map_or_else(|refusal| refusal.to_string(), |()| "ok".into());
            assert!(told.contains(expected), "{told} is not about {expected}");
        };
        check(|_, _| (), "ok");
        check(|notes, _| *notes = Notes::default(), "ok");
        check(|notes, _| notes.left = true, "left the cluster");
        check(|notes, _| notes.member = None, "no note of this daemon");
        check(|_, options| options.set = "t".into(), "replica set s, not of t");
        check(
            |_, options| options.secret = Some("other".into()),
            "another cluster secret",
        );
        check(|_, options| options.secret = None, "another cluster secret");
        check(|notes, _| notes.key = None, "ok");
        check(
            |notes, options| {
                notes.member.as_mut().unwrap().replica_set = None;
                options.secret = Some("corrected".into());
            },
            "ok",
        );
    }

    #[test]
    fn by_what_is_in_etcd() {
        let check = |alter: fn(&mut Notes, &mut Records), expected: &str| {
            let (mut notes, mut records) = (notes(), records());
            alter(&mut notes, &mut records);
            let told = by_records(&options(), &notes, &records)
                .map_or_else(|refusal| refusal.to_string(), |()| "ok".into());
            assert!(told.contains(expected), "{told} is not about {expected}");
        };
        check(|_, _| (), "ok");
        check(|notes, _| *notes = Notes::default(), "ok");
        check(
            |_, records| {
                *records = Records {
                    cluster: 7,
                    ..Records::default()
                }
            },
            "ok",
        );
        check(
            |_, records| records.initiated.as_mut().unwrap().set = "t".into(),
            "replica set is t, not s",
        );
        check(
            |_, records| records.members.get_mut("b").unwrap().address = "h:1".into(),
            "registered by the node b",
        );
        // Removed from elsewhere while it was away.
        check(
            |_, records| {
                let (name, address, gone) = ("a".into(), "h:1".into(), true);
                records.left.insert("a1".into(), Left { name, address, gone });
            },
            "left the cluster",
        );
        // The same, but the set is not rid of it.
        check(
            |_, records| {
                let (name, address, gone) = ("a".into(), "h:1".into(), false);
                records.left.insert("a1".into(), Left { name, address, gone });
            },
            "ok",
        );
        // The folder of another cluster, by its set or by its etcd.
        check(
            |_, records| records.initiated.as_mut().unwrap().id = "y".into(),
            "another cluster",
        );
        check(
            |_, records| {
                *records = Records {
                    cluster: 8,
                    ..Records::default()
                }
            },
            "another cluster",
        );
        // etcd was restored: another id, the same records.
        check(|_, records| records.cluster = 8, "ok");
        // etcd was set up anew, and the operator says that this is meant.
        check(
            |notes, records| {
                *records = Records {
                    cluster: 8,
                    ..Records::default()
                };
                notes.cluster = None;
            },
            "ok",
        );
        // Lost data is no data of another cluster.
        check(
            |notes, records| {
                notes.has_data = false;
                records.cluster = 8;
                records.initiated = None;
            },
            "ok",
        );
    }

    #[test]
    fn by_the_seat_at_its_address() {
        let check = |incarnation: Option<&str>, votes: i64, expected: Seating| {
            let seat = Seat {
                address: "h:1".into(),
                name: None,
                incarnation: incarnation.map(Incarnation::from),
                votes,
            };
            assert_eq!(by_seat(&"a1".into(), &seat, &records()), expected, "{seat:?}");
        };
        check(Some("a1"), 0, Seating::Fine);
        check(Some("a1"), 1, Seating::Mistaken);
        check(Some("a0"), 1, Seating::Lost("a0".into()));
        check(Some("a0"), 0, Seating::Lost("a0".into()));
        check(Some("b1"), 1, Seating::Taken);
        check(None, 1, Seating::Taken);
    }
}
