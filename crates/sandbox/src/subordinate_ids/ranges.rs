//! The contents of `/etc/subuid` and `/etc/subgid`: lines `USER:FIRST:COUNT`, with the user's name or number.

use std::ops::Range;

/// The user whose ranges are looked up in /etc/subuid and /etc/subgid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdOwner {
    pub(super) name: Option<String>,
    pub(super) number: u32,
}

impl IdOwner {
    /// The user as a line of these files names it.
    pub(super) fn text(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.number.to_string())
    }

    fn is_named(&self, text: &str) -> bool {
        self.name.as_deref() == Some(text) || text.parse() == Ok(self.number)
    }
}

/// The id ranges of this user, sorted and merged where lines overlap.
pub(super) fn ranges_of(text: &str, user: &IdOwner) -> Vec<Range<u32>> {
    let lines = entries(text).filter(|(owner, _)| user.is_named(owner));
    let mut ranges: Vec<_> = lines.map(|(_, range)| range).collect();
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<Range<u32>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

/// Chooses one id for each warden: from `first` on if that is one of the user's ids, so that an operator can separate
/// several executors; otherwise the last ids, because containers of the same user take the first ones. Returns fewer
/// if there are not enough.
pub(super) fn choose_ids(ranges: &[Range<u32>], first: u32, count: usize) -> Vec<u32> {
    let all = || ranges.iter().cloned().flatten();
    match ranges.iter().any(|range| range.contains(&first)) {
        true => all().filter(|id| *id >= first).take(count).collect(),
        false => {
            let mut last: Vec<_> = all().rev().take(count).collect();
            last.reverse();
            last
        }
    }
}

/// The first id that is above every assigned range.
pub(super) fn first_unassigned_id(texts: [&str; 2]) -> u32 {
    /// The first id that Debian's tools assign.
    const LOWEST: u32 = 100_000;
    let taken = texts.into_iter().flat_map(entries).map(|(_, range)| range.end);
    taken.max().map_or(LOWEST, |end| end.max(LOWEST))
}

/// Yields the valid lines. Others, for example comments, are ignored, as the programs that read these files ignore
/// them.
fn entries(text: &str) -> impl Iterator<Item = (&str, Range<u32>)> {
    text.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (owner, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        let (first, count): (u32, u32) = (first.parse().ok()?, count.parse().ok()?);
        let is_entry = fields.next().is_none() && !owner.is_empty() && !owner.starts_with('#') && first > 0;
        // The highest number is not a valid id.
        is_entry.then(|| (owner, first..first.saturating_add(count)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> IdOwner {
        IdOwner {
            name: Some("judge".to_string()),
            number: 1001,
        }
    }

    fn ends(ranges: &[Range<u32>]) -> Vec<(u32, u32)> {
        ranges.iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn a_user_has_the_ranges_of_its_lines() {
        fn check(text: &str, expected: &[(u32, u32)]) {
            assert_eq!(ends(&ranges_of(text, &user())), expected, "{text}");
        }
        check("", &[]);
        check("judge:100000:65536\n", &[(100_000, 165_536)]);
        check("1001:100000:65536", &[(100_000, 165_536)]);
        check("other:100000:65536\n1002:5:5\njudges:7:7\n", &[]);
        check(
            "# judge:1:1\n#judge:1:1\n\n judge:200000:10 \nother:300000:10\n1001:100000:5\n",
            &[(100_000, 100_005), (200_000, 200_010)],
        );
        // Overlapping ranges, a range within another, and adjacent ranges.
        check("judge:100:50\njudge:120:50\n", &[(100, 170)]);
        check("judge:100:50\n1001:110:5\n", &[(100, 150)]);
        check("judge:100:50\njudge:150:50\n", &[(100, 200)]);
        for bad in [
            "judge:100",
            "judge:x:5",
            "judge:5:x",
            "judge:-5:5",
            "judge:1:2:3",
            ":1:1",
            "judge:0:5",
        ] {
            check(bad, &[]);
        }
        check("judge:4294967290:100", &[(4_294_967_290, u32::MAX)]);
    }

    #[test]
    fn a_user_without_a_name_has_the_ranges_of_its_number() {
        let nameless = IdOwner {
            name: None,
            number: 1001,
        };
        assert_eq!(
            ends(&ranges_of("judge:100:50\n1001:200:50\n", &nameless)),
            [(200, 250)]
        );
    }

    #[test]
    fn each_warden_gets_its_own_id() {
        fn check(first: u32, count: usize, expected: &[u32]) {
            let ranges = [100..103, 200..202];
            assert_eq!(
                choose_ids(&ranges, first, count),
                expected,
                "{count} from {first} on"
            );
        }
        // The operator's choice, across the gap between two ranges.
        check(100, 2, &[100, 101]);
        check(102, 2, &[102, 200]);
        // The first id is not one of the user's ids.
        check(103, 2, &[200, 201]);
        check(1_900_000_000, 3, &[102, 200, 201]);
        check(1_900_000_000, 0, &[]);
        // There are too few ids.
        check(1_900_000_000, 6, &[100, 101, 102, 200, 201]);
        check(201, 2, &[201]);
        assert!(choose_ids(&[], 100, 1).is_empty());
    }

    #[test]
    fn an_unassigned_range_starts_above_all_assigned_ones() {
        fn check(users: &str, groups: &str, expected: u32) {
            assert_eq!(first_unassigned_id([users, groups]), expected, "{users} {groups}");
        }
        check("", "", 100_000);
        check("a:5:5", "", 100_000);
        check("a:100000:65536\n", "", 165_536);
        check("a:100000:65536\n", "b:165536:65536\n", 231_072);
    }
}
