//! What `/etc/subuid` and `/etc/subgid` give to a user: lines `USER:FIRST:COUNT`, with the user's name or number.

use std::ops::Range;

/// Whom a line is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: Option<String>,
    pub(super) number: u32,
}

impl User {
    /// As a line names it.
    pub(super) fn text(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.number.to_string())
    }

    fn is(&self, text: &str) -> bool {
        self.name.as_deref() == Some(text) || text.parse() == Ok(self.number)
    }
}

/// The ids of this user, in order and each once, however the lines overlap.
pub(super) fn ids(text: &str, user: &User) -> Vec<Range<u32>> {
    let lines = entries(text).filter(|(owner, _)| user.is(owner));
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

/// One for each warden: from `first` on if that is one of them, so that an operator can keep several executors apart;
/// otherwise the last ones, since containers of the same user take the first. Fewer where there are no more.
pub(super) fn choose(ranges: &[Range<u32>], first: u32, count: usize) -> Vec<u32> {
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

/// From where on nobody has any.
pub(super) fn first_free(texts: [&str; 2]) -> u32 {
    /// Where the tools of Debian begin.
    const LOWEST: u32 = 100_000;
    let taken = texts.into_iter().flat_map(entries).map(|(_, range)| range.end);
    taken.max().map_or(LOWEST, |end| end.max(LOWEST))
}

/// Lines that are none (comments, say) give nothing, as for the programs that read these files.
fn entries(text: &str) -> impl Iterator<Item = (&str, Range<u32>)> {
    text.lines().filter_map(|line| {
        let mut fields = line.trim().split(':');
        let (owner, first, count) = (fields.next()?, fields.next()?, fields.next()?);
        let (first, count): (u32, u32) = (first.parse().ok()?, count.parse().ok()?);
        let is_entry = fields.next().is_none() && !owner.is_empty() && !owner.starts_with('#') && first > 0;
        // The last number of all stands for no id.
        is_entry.then(|| (owner, first..first.saturating_add(count)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User {
            name: Some("judge".to_string()),
            number: 1001,
        }
    }

    fn ends(ranges: &[Range<u32>]) -> Vec<(u32, u32)> {
        ranges.iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn a_user_has_what_its_lines_say() {
        fn check(text: &str, expected: &[(u32, u32)]) {
            assert_eq!(ends(&ids(text, &user())), expected, "{text}");
        }
        check("", &[]);
        check("judge:100000:65536\n", &[(100_000, 165_536)]);
        check("1001:100000:65536", &[(100_000, 165_536)]);
        check("other:100000:65536\n1002:5:5\njudges:7:7\n", &[]);
        check(
            "# judge:1:1\n#judge:1:1\n\n judge:200000:10 \nother:300000:10\n1001:100000:5\n",
            &[(100_000, 100_005), (200_000, 200_010)],
        );
        // Overlapping, one within another, and one right after another.
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
    fn a_user_without_a_name_has_the_lines_of_its_number() {
        let nameless = User {
            name: None,
            number: 1001,
        };
        assert_eq!(ends(&ids("judge:100:50\n1001:200:50\n", &nameless)), [(200, 250)]);
    }

    #[test]
    fn each_warden_has_an_id_of_its_own() {
        fn check(first: u32, count: usize, expected: &[u32]) {
            let ranges = [100..103, 200..202];
            assert_eq!(choose(&ranges, first, count), expected, "{count} from {first} on");
        }
        // The operator's choice, across the gap.
        check(100, 2, &[100, 101]);
        check(102, 2, &[102, 200]);
        // Not one of them.
        check(103, 2, &[200, 201]);
        check(1_900_000_000, 3, &[102, 200, 201]);
        check(1_900_000_000, 0, &[]);
        // Too few.
        check(1_900_000_000, 6, &[100, 101, 102, 200, 201]);
        check(201, 2, &[201]);
        assert!(choose(&[], 100, 1).is_empty());
    }

    #[test]
    fn a_range_that_nobody_has_comes_after_all_others() {
        fn check(users: &str, groups: &str, expected: u32) {
            assert_eq!(first_free([users, groups]), expected, "{users} {groups}");
        }
        check("", "", 100_000);
        check("a:5:5", "", 100_000);
        check("a:100000:65536\n", "", 165_536);
        check("a:100000:65536\n", "b:165536:65536\n", 231_072);
    }
}
