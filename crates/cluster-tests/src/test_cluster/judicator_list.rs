//! The cluster's own list of judicators with their etcd and MongoDB members.

use std::fmt;

use api::{ClusterMemberState, JudicatorState};

/// MongoDB's limit for a replica set.
const MOST_VOTERS: usize = 7;

/// The judicators of a cluster under test with their etcd and MongoDB members, as the HTTP API lists them.
#[derive(Clone, Debug)]
pub struct JudicatorList(pub Vec<JudicatorState>);

impl JudicatorList {
    pub fn leader(&self) -> Option<String> {
        let mut leaders = self.0.iter().filter(|judicator| judicator.leader);
        leaders.next().map(|judicator| judicator.name.clone())
    }

    pub fn primary(&self) -> Option<String> {
        let mut primaries = self
            .0
            .iter()
            .filter(|judicator| state(&judicator.mongodb) == "primary");
        primaries.next().map(|judicator| judicator.name.clone())
    }

    pub fn get(&self, name: &str) -> Option<&JudicatorState> {
        self.0.iter().find(|judicator| judicator.name == name)
    }

    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.iter().map(|judicator| judicator.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// Whether the list has exactly `count` nodes, each with a healthy judicator, etcd member and replica set member, with
    /// one leader of each kind and as many voting members as MongoDB allows.
    pub fn is_complete(&self, count: usize) -> bool {
        let leaders = |is_wanted: fn(&JudicatorState) -> bool| {
            self.0.iter().filter(|judicator| is_wanted(judicator)).count()
        };
        self.0.len() == count
            && self.voters() == count.min(MOST_VOTERS)
            && leaders(|judicator| judicator.leader) == 1
            && leaders(|judicator| state(&judicator.etcd) == "leader") == 1
            && leaders(|judicator| state(&judicator.mongodb) == "primary") == 1
            && self.0.iter().all(|judicator| {
                judicator.health == "alive"
                    && ["leader", "follower"].contains(&state(&judicator.etcd))
                    && ["primary", "secondary"].contains(&self.kind(judicator))
            })
    }

    /// How many members of the replica set vote.
    pub fn voters(&self) -> usize {
        self.0.iter().filter(|judicator| votes(judicator)).count()
    }

    /// The names of the judicators whose MongoDB member does not vote.
    pub fn without_vote(&self) -> Vec<&str> {
        let silent = self.0.iter().filter(|judicator| !votes(judicator));
        silent.map(|judicator| judicator.name.as_str()).collect()
    }

    /// The replica set state, without the remark about votes.
    fn kind<'a>(&self, judicator: &'a JudicatorState) -> &'a str {
        let state = state(&judicator.mongodb);
        state.split([',', ' ']).next().unwrap_or_default()
    }
}

fn state(part: &Option<ClusterMemberState>) -> &str {
    part.as_ref().map_or("", |part| &part.state)
}

fn votes(judicator: &JudicatorState) -> bool {
    judicator.mongodb.is_some() && !state(&judicator.mongodb).contains("vote")
}

impl fmt::Display for JudicatorList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for judicator in &self.0 {
            let JudicatorState { name, health, .. } = judicator;
            let leads = if judicator.leader { "leads" } else { "follows" };
            let (etcd, mongodb) = (state(&judicator.etcd), state(&judicator.mongodb));
            write!(f, "{name} {health} {leads}, etcd {etcd}, mongodb {mongodb}; ")?;
        }
        Ok(())
    }
}
