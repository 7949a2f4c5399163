//! What the cluster says about its judicators and the servers they stand on.

use std::fmt;

use api::{Judicator, Part};

/// Of a replica set.
const MOST_VOTERS: usize = 7;

#[derive(Clone, Debug)]
pub struct Roster(pub Vec<Judicator>);

impl Roster {
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

    pub fn get(&self, name: &str) -> Option<&Judicator> {
        self.0.iter().find(|judicator| judicator.name == name)
    }

    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.iter().map(|judicator| judicator.name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// So many nodes and no other, each with a judicator, a member of etcd and one of the replica set that serve;
    /// one of each leads, and as many vote as may.
    pub fn is_whole(&self, count: usize) -> bool {
        let leaders =
            |is_so: fn(&Judicator) -> bool| self.0.iter().filter(|judicator| is_so(judicator)).count();
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

    /// Those that do not.
    pub fn without_vote(&self) -> Vec<&str> {
        let silent = self.0.iter().filter(|judicator| !votes(judicator));
        silent.map(|judicator| judicator.name.as_str()).collect()
    }

    /// What its mongod is, whether it votes or not.
    fn kind<'a>(&self, judicator: &'a Judicator) -> &'a str {
        let state = state(&judicator.mongodb);
        state.split([',', ' ']).next().unwrap_or_default()
    }
}

fn state(part: &Option<Part>) -> &str {
    part.as_ref().map_or("", |part| &part.state)
}

fn votes(judicator: &Judicator) -> bool {
    judicator.mongodb.is_some() && !state(&judicator.mongodb).contains("vote")
}

impl fmt::Display for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for judicator in &self.0 {
            let Judicator { name, health, .. } = judicator;
            let leads = if judicator.leader { "leads" } else { "follows" };
            let (etcd, mongodb) = (state(&judicator.etcd), state(&judicator.mongodb));
            write!(f, "{name} {health} {leads}, etcd {etcd}, mongodb {mongodb}; ")?;
        }
        Ok(())
    }
}
