//! The one thing about a certificate that etcd's proxy is particular about.

/// A common name in its subject, where there is one. As much of DER is read as leads there; of a certificate that makes
/// no sense nothing is told, for whoever uses it will say more.
pub(crate) fn common_name(certificate: &[u8]) -> Option<String> {
    let (whole, _) = element(certificate)?;
    let mut rest = element(whole.content)?.0.content;
    // The version may be left out. Then come the serial number, the algorithm, the issuer and the times.
    if element(rest)?.0.tag == VERSION {
        rest = element(rest)?.1;
    }
    for _ in 0..4 {
        rest = element(rest)?.1;
    }
    let mut names = element(rest)?.0.content;
    while let Some((set, others)) = element(names) {
        names = others;
        let (kind, value) = element(element(set.content)?.0.content)?;
        if kind.content == COMMON_NAME {
            let text = String::from_utf8_lossy(element(value)?.0.content).into_owned();
            return Some(text).filter(|text| !text.is_empty());
        }
    }
    None
}

const VERSION: u8 = 0xa0;
/// 2.5.4.3
const COMMON_NAME: &[u8] = &[0x55, 4, 3];

struct Element<'a> {
    tag: u8,
    content: &'a [u8],
}

/// The first one, and what follows it.
fn element(bytes: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match usize::from(first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (digits, rest) = rest.split_at_checked(long - 0x80)?;
            let length = digits.iter().try_fold(0usize, |sum, digit| {
                sum.checked_mul(256)?.checked_add((*digit).into())
            })?;
            (length, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((Element { tag, content }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        let mut all = vec![tag];
        // The long form, which certificates have on the outside.
        if length >= 0x80 {
            all.push(0x81);
        }
        all.push(length);
        all.extend(content);
        all
    }

    fn name(kind: u8, text: &str) -> Vec<u8> {
        let pair = [der(6, &[0x55, 4, kind]), der(0x0c, text.as_bytes())].concat();
        der(0x31, &der(0x30, &pair))
    }

    fn certificate(version: &[u8], subject: &[Vec<u8>]) -> Vec<u8> {
        let issuer = der(0x30, &name(3, "issuer"));
        let start = [
            version.to_vec(),
            der(2, &[1]),
            der(0x30, &[]),
            issuer,
            der(0x30, &[]),
        ]
        .concat();
        let signed = [start, der(0x30, &subject.concat()), der(0x30, &[0; 80])].concat();
        der(0x30, &der(0x30, &signed))
    }

    #[test]
    fn the_common_name_of_the_subject_is_found_and_no_other() {
        let version = der(VERSION, &der(2, &[2]));
        for version in [&version[..], &[]] {
            for (subject, found) in [
                (&[][..], None),
                (&[name(10, "org")], None),
                (&[name(3, "")], None),
                (&[name(3, "node")], Some("node")),
                (&[name(10, "org"), name(3, "node")], Some("node")),
            ] {
                let whole = certificate(version, subject);
                assert_eq!(common_name(&whole).as_deref(), found, "{subject:?}");
                for end in 0..whole.len() {
                    assert_eq!(common_name(&whole[..end]), None, "cut off at {end}");
                }
            }
        }
    }
}
