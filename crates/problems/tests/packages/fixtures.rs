//! Writes packages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use problems::{PackageCheck, PackageError, PackageProgram, ProblemPackage, read_package};

/// A package in a temporary folder, which is called `hello`.
pub(crate) struct PackageFixture {
    folder: tempfile::TempDir,
}

/// Two cases, of which one is a sample.
pub(crate) const DATA: [(&str, &str); 4] = [
    ("data/sample/1.in", "1\n"),
    ("data/sample/1.ans", "2\n"),
    ("data/secret/01.in", "3\n"),
    ("data/secret/01.ans", "4\n"),
];

impl PackageFixture {
    pub(crate) fn empty() -> PackageFixture {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("hello")).unwrap();
        PackageFixture { folder }
    }

    /// A package with these settings, two cases, and a submission.
    pub(crate) fn new(problem_yaml: &str) -> PackageFixture {
        let package = PackageFixture::empty();
        package
            .write("problem.yaml", problem_yaml)
            .write_all(&DATA)
            .write("submissions/accepted/a.py", "print(int(input()) + 1)\n")
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("hello")
    }

    pub(crate) fn write(self, path: &str, text: &str) -> PackageFixture {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(crate) fn write_all(self, files: &[(&str, &str)]) -> PackageFixture {
        files
            .iter()
            .fold(self, |package, (path, text)| package.write(path, text))
    }

    pub(crate) fn executable(self, path: &str, text: &str) -> PackageFixture {
        let package = self.write(path, text);
        fs::set_permissions(package.path().join(path), fs::Permissions::from_mode(0o755)).unwrap();
        package
    }

    /// An input and an answer for each of these cases.
    pub(crate) fn cases(self, names: &[&str]) -> PackageFixture {
        names.iter().fold(self, |package, name| {
            package
                .write(&format!("data/{name}.in"), "1\n")
                .write(&format!("data/{name}.ans"), "2\n")
        })
    }

    pub(crate) fn read(&self) -> Result<ProblemPackage, PackageError> {
        read_package(&self.path())
    }

    /// The package without any warning.
    pub(crate) fn read_clean(&self) -> ProblemPackage {
        let package = self.read().unwrap();
        assert_eq!(package.warnings, [""; 0]);
        package
    }

    /// The message of the error, with paths inside of the package.
    pub(crate) fn error(&self) -> String {
        self.relative(self.read().unwrap_err().to_string())
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let warnings = self.read().unwrap().warnings;
        warnings
            .into_iter()
            .map(|warning| self.relative(warning))
            .collect()
    }

    fn relative(&self, text: String) -> String {
        let root = self.path().display().to_string();
        text.replace(&format!("{root}/"), "").replace(&root, ".")
    }
}

/// The name, points and group of each case.
pub(crate) fn scores(package: &ProblemPackage) -> Vec<(&str, f64, Option<&str>)> {
    let cases = package.cases.iter();
    cases
        .map(|case| {
            let group = case.group.as_ref().map(|group| group.as_str());
            (case.name.as_str(), case.points.as_f64(), group)
        })
        .collect()
}

/// The program that judges.
pub(crate) fn program(package: &ProblemPackage) -> &PackageProgram {
    match &package.check {
        PackageCheck::Program(program) | PackageCheck::Interactive(program) => program,
        PackageCheck::Tokens(_) => panic!("no program judges"),
    }
}
