//! Writes tar archives with headers of the test's choice, also such that no tool would write.

/// A member of an archive that a test makes, with every field of its header.
#[derive(Clone)]
pub(crate) struct TestMember {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: u8,
    pub(crate) content: Vec<u8>,
    pub(crate) target: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) owner: u64,
    pub(crate) extensions: Vec<(&'static str, Vec<u8>)>,
}

pub(crate) fn member(kind: u8, name: impl AsRef<[u8]>) -> TestMember {
    TestMember {
        name: name.as_ref().to_vec(),
        kind,
        content: Vec::new(),
        target: Vec::new(),
        mode: 0o644,
        owner: 0,
        extensions: Vec::new(),
    }
}

pub(crate) fn file(name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> TestMember {
    TestMember {
        content: content.as_ref().to_vec(),
        ..member(b'0', name)
    }
}

pub(crate) fn folder(name: impl AsRef<[u8]>) -> TestMember {
    member(b'5', name).with_mode(0o755)
}

pub(crate) fn link(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> TestMember {
    TestMember {
        target: target.as_ref().to_vec(),
        ..member(b'2', name)
    }
}

pub(crate) fn hard_link(name: impl AsRef<[u8]>, target: impl AsRef<[u8]>) -> TestMember {
    TestMember {
        target: target.as_ref().to_vec(),
        ..member(b'1', name)
    }
}

impl TestMember {
    pub(crate) fn with_mode(mut self, mode: u32) -> TestMember {
        self.mode = mode;
        self
    }

    pub(crate) fn with_owner(mut self, owner: u64) -> TestMember {
        self.owner = owner;
        self
    }

    /// With a record of a POSIX extended header.
    pub(crate) fn with_extension(mut self, key: &'static str, value: impl AsRef<[u8]>) -> TestMember {
        self.extensions.push((key, value.as_ref().to_vec()));
        self
    }

    fn append_to(&self, archive: &mut Vec<u8>) {
        let mut extensions = self.extensions.clone();
        if self.name.len() > 100 || self.name.contains(&0) {
            extensions.push(("path", self.name.clone()));
        }
        if self.target.len() > 100 || self.target.contains(&0) {
            extensions.push(("linkpath", self.target.clone()));
        }
        if !extensions.is_empty() {
            let records: Vec<u8> = extensions
                .iter()
                .flat_map(|(key, value)| extension_record(key, value))
                .collect();
            append_header(archive, &member(b'x', "extensions"), records.len() as u64);
            append_content(archive, &records);
        }
        append_header(archive, self, self.content.len() as u64);
        append_content(archive, &self.content);
    }
}

/// A whole archive, with its end marker.
pub(crate) fn archive(members: &[TestMember]) -> Vec<u8> {
    let mut archive = archive_without_end(members);
    archive.extend([0; 1024]);
    archive
}

pub(crate) fn archive_without_end(members: &[TestMember]) -> Vec<u8> {
    let mut archive = Vec::new();
    for member in members {
        member.append_to(&mut archive);
    }
    archive
}

pub(crate) fn append_header(archive: &mut Vec<u8>, member: &TestMember, size: u64) {
    let mut header = tar::Header::new_ustar();
    let copy = |field: &mut [u8], value: &[u8]| {
        let length = value.len().min(field.len());
        field[..length].copy_from_slice(&value[..length]);
    };
    copy(&mut header.as_old_mut().name, &member.name);
    copy(&mut header.as_old_mut().linkname, &member.target);
    header.as_old_mut().linkflag = [member.kind];
    header.set_mode(member.mode);
    header.set_uid(member.owner);
    header.set_gid(member.owner);
    header.set_mtime(1_600_000_000);
    header.set_size(size);
    header.set_cksum();
    archive.extend(header.as_bytes());
}

pub(crate) fn append_content(archive: &mut Vec<u8>, content: &[u8]) {
    archive.extend(content);
    archive.resize(archive.len().next_multiple_of(512), 0);
}

/// `LENGTH KEY=VALUE\n`, where the length counts itself.
fn extension_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}
