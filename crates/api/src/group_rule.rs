//! How the points of groups of cases add up, in JSON: `{"small": {"score": "min"}}`.

use std::collections::BTreeMap;
use std::fmt;

use model::{CaseName, GroupScoring};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::item_limits::{CountedItem, ItemCounter, count_rest_of_map};
use crate::object::impl_json_objects;
use crate::serde_text;

/// The rules of groups of cases by the name of the group.
pub(crate) type GroupRules = BTreeMap<CaseName, GroupScoring>;

/// How the points of a group of cases add up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
struct GroupRule {
    #[serde(with = "serde_text::scoring", default)]
    score: GroupScoring,
}

impl_json_objects! {
    GroupRule: "an object like {\"score\": \"sum\"}";
}

/// A serde seed that parses the name of a group of cases.
struct GroupNameSeed;

impl<'de> DeserializeSeed<'de> for GroupNameSeed {
    type Value = CaseName;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<CaseName, D::Error> {
        serde_text::deserialize_text(deserializer, "the name of a group of cases", |text| {
            CaseName::new(text)
        })
    }
}

pub(crate) fn serialize<S: Serializer>(rules: &GroupRules, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(rules.len()))?;
    for (name, score) in rules {
        map.serialize_entry(name.as_str(), &GroupRule { score: *score })?;
    }
    map.end()
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<GroupRules, D::Error> {
    /// A serde visitor that parses the rules of a limited number of groups from JSON.
    struct RulesVisitor;

    impl<'de> Visitor<'de> for RulesVisitor {
        type Value = GroupRules;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of groups by name, like {\"small\": {\"score\": \"min\"}}")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<GroupRules, A::Error> {
            let mut count = ItemCounter::new(CountedItem::Groups);
            let mut rules = GroupRules::new();
            while !count.is_full() {
                let Some(name) = map.next_key_seed(GroupNameSeed)? else {
                    return Ok(rules);
                };
                let GroupRule { score } = map.next_value()?;
                if rules.insert(name.clone(), score).is_some() {
                    return Err(A::Error::custom(format!("'{name}' is given twice")));
                }
                count.add()?;
            }
            count.finish(count_rest_of_map(&mut map)?)?;
            Ok(rules)
        }
    }

    deserializer.deserialize_map(RulesVisitor)
}
