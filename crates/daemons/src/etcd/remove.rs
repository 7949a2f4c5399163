//! Removes the member of a node that is gone for good.

use registry::etcd::Access;

use super::EtcdError;
use super::expel::expel;
use super::members::{MemberSeen, MemberState, members_after_election, serving};

/// How often in a row it has to be silent.
const LOOKS: u32 = 3;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// By its name, or by its address for peers: a member that never started has no name.
pub async fn remove(access: &Access, name: &str) -> Result<(), EtcdError> {
    for _ in 1..LOOKS {
        if choose(&members_after_election(access).await?, name)?.state == MemberState::Unstarted {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let all = members_after_election(access).await?;
    let gone = choose(&all, name)?;
    expel(&access.at(serving(&all)), gone.id).await
}

fn choose<'a>(all: &'a [MemberSeen], name: &str) -> Result<&'a MemberSeen, EtcdError> {
    let chosen = all
        .iter()
        .find(|member| member.name == name || member.peer == name);
    let chosen = chosen.ok_or_else(|| EtcdError::NoSuchMember {
        name: name.to_string(),
        known: all
            .iter()
            .map(|member| match member.name.is_empty() {
                true => member.peer.clone(),
                false => member.name.clone(),
            })
            .collect(),
    })?;
    match chosen.state {
        MemberState::Leader | MemberState::Follower | MemberState::Learner => Err(EtcdError::Alive {
            name: name.to_string(),
            client: chosen.client.clone(),
        }),
        MemberState::Unreachable | MemberState::Unstarted if all.len() == 1 => Err(EtcdError::OnlyMember {
            name: name.to_string(),
        }),
        MemberState::Unreachable | MemberState::Unstarted => Ok(chosen),
    }
}
