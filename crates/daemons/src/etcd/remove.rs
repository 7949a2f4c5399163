//! Removes the member of a node that is gone for good.

use registry::etcd::Access;

use super::EtcdError;
use super::expel::expel;
use super::members::{MemberSeen, MemberState, members, serving};

/// How often in a row it has to be silent.
const LOOKS: u32 = 3;
const PAUSE: std::time::Duration = std::time::Duration::from_millis(500);

/// By its name, or by its address for peers: a member that never started has no name.
pub async fn remove(access: &Access, name: &str) -> Result<(), EtcdError> {
    for look in 1.. {
        let all = members(access).await?;
        let gone = choose(&all, name)?;
        if gone.state == MemberState::Unstarted || look == LOOKS {
            let serving = access.at(serving(&all));
            return expel(&serving, gone.id).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
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
