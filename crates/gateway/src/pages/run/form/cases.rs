//! The cases in the form of the page Run, and the JSON of the API that they become.

use api::{CasesOrFiles, FilesOrZip, NewTask};
use model::{CaseName, Content, InvalidField, Points, TaskFile, TaskFiles, WorkspacePath};
use serde_json::{Map, Value, json};

use super::{RunForm, UploadedFile, insert_number, insert_text};

/// The control that holds the cases.
pub(in crate::pages::run) const CASES: &str = "cases";

/// A case in the form of the page Run: what the reader typed, and what the form has no controls for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::pages::run) struct FormCase {
    pub(in crate::pages::run) name: String,
    pub(in crate::pages::run) input: String,
    pub(in crate::pages::run) answer: String,
    pub(in crate::pages::run) points: String,
    pub(in crate::pages::run) group: String,
    /// Other fields of the case as a JSON object; empty if there are none. What is typed takes the place of what is here.
    pub(in crate::pages::run) more: String,
}

impl FormCase {
    /// An empty row of the form.
    fn is_left_out(&self) -> bool {
        let FormCase {
            name,
            input,
            answer,
            points,
            group,
            more,
        } = self;
        let trimmed = [name, points, group, more]
            .into_iter()
            .all(|text| text.trim().is_empty());
        trimmed && input.is_empty() && answer.is_empty()
    }

    fn control(&mut self, name: &str) -> Option<&mut String> {
        match name {
            "case.input" => Some(&mut self.input),
            "case.answer" => Some(&mut self.answer),
            "case.points" => Some(&mut self.points),
            "case.group" => Some(&mut self.group),
            "case.more" => Some(&mut self.more),
            _ => None,
        }
    }

    /// A case without a name is named by its number.
    fn to_json(&self, number: usize) -> Result<Value, InvalidField> {
        let mut case = match self.more.trim() {
            "" => Map::new(),
            more => parse_kept(more)?,
        };
        let name = match self.name.trim() {
            "" => number.to_string(),
            name => name.to_string(),
        };
        case.insert("name".into(), name.into());
        insert_text(&mut case, "input", &self.input);
        insert_text(&mut case, "answer", &self.answer);
        insert_text(&mut case, "group", self.group.trim());
        match self.points.trim() {
            "" => {}
            points => match points.parse::<f64>() {
                Ok(number) if number.is_finite() => drop(case.insert("points".into(), number.into())),
                // The parser of the API refuses it.
                _ => drop(case.insert("points".into(), points.into())),
            },
        }
        Ok(case.into())
    }
}

/// What the form carries without showing it. Only scripts of others would send something else.
fn parse_kept<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, InvalidField> {
    let problem =
        |error: serde_json::Error| format!("has a part that is no JSON ({error}); load the page again");
    serde_json::from_str(text).map_err(|error| InvalidField::new(CASES, problem(error)))
}

impl RunForm {
    /// Takes a control of a case. The controls of a case follow its name. `None` if it is another control.
    pub(super) fn take_case_control(&mut self, name: &str, value: &str) -> Option<Result<(), InvalidField>> {
        match name {
            "case.name" => self.cases.push(FormCase {
                name: value.to_string(),
                ..FormCase::default()
            }),
            "cases_kept" => self.cases_kept = Some(value.to_string()),
            "case_upload_name" => self.case_upload_names.push(value.to_string()),
            "check_kept" => self.check_kept = Some(value.to_string()),
            _ if name.starts_with("case.") => {
                let control = self.cases.last_mut().and_then(|case| case.control(name));
                let misplaced =
                    || InvalidField::new(CASES, format!("has '{name}' before the name of its case"));
                return Some(
                    control
                        .map(|control| *control = value.to_string())
                        .ok_or_else(misplaced),
                );
            }
            _ => return None,
        }
        Some(Ok(()))
    }

    /// The names of the files with cases that are attached.
    pub(in crate::pages::run) fn attached_cases(&self) -> Vec<&str> {
        let sent = self.case_uploads.iter().map(|upload| upload.path.as_str());
        let names = self.case_upload_names.iter().map(String::as_str);
        sent.chain(names).collect()
    }

    /// Whether the program is judged. Then each case has an input of its own.
    pub(in crate::pages::run) fn is_judged(&self) -> bool {
        let has_rows = self.cases.iter().any(|case| !case.is_left_out());
        has_rows
            || self.cases_kept.is_some()
            || !self.attached_cases().is_empty()
            || !self.trimmed("problem").is_empty()
    }

    pub(super) fn insert_judging(&self, task: &mut Map<String, Value>) -> Result<(), InvalidField> {
        let rows = self.cases.iter().filter(|case| !case.is_left_out());
        let mut cases = match &self.cases_kept {
            None => Value::Array(vec![]),
            Some(kept) => parse_kept(kept)?,
        };
        for row in rows {
            let Some(list) = cases.as_array_mut() else {
                let problem = "are given in a zip and one by one; choose one";
                return Err(InvalidField::new(CASES, problem));
            };
            let case = row.to_json(list.len() + 1)?;
            list.push(case);
        }
        if cases != json!([]) {
            task.insert(CASES.into(), cases);
        }
        self.insert_check(task)?;
        insert_text(task, "stop", self.trimmed("stop"));
        insert_text(task, "problem", self.trimmed("problem"));
        Ok(())
    }

    fn insert_check(&self, task: &mut Map<String, Value>) -> Result<(), InvalidField> {
        let kept: Map<String, Value> = match &self.check_kept {
            Some(kept) => parse_kept(kept)?,
            None => Map::new(),
        };
        let (kind, tolerance) = (self.trimmed("check.kind"), self.trimmed("check.float_tolerance"));
        let is_chosen = !kind.is_empty() || !tolerance.is_empty();
        for (name, value) in kept {
            if !(is_chosen && matches!(name.as_str(), "check" | "interact")) {
                task.insert(name, value);
            }
        }
        if is_chosen {
            let mut check = Map::new();
            check.insert(
                "kind".into(),
                if kind.is_empty() { "tokens" } else { kind }.into(),
            );
            match tolerance.parse::<f64>() {
                Ok(number) => drop(check.insert("float_tolerance".into(), number.into())),
                Err(_) => insert_number(&mut check, "float_tolerance", tolerance),
            }
            task.insert("check".into(), check.into());
        }
        Ok(())
    }

    /// Adds the cases in the files that the browser has sent: a zip, or inputs with their answers.
    pub(super) fn add_case_uploads(&self, task: &mut NewTask) -> Result<(), InvalidField> {
        let zip = self.case_uploads.iter().find(|upload| upload.is_zip());
        match (self.case_uploads.as_slice(), zip) {
            ([], _) => {}
            ([only], Some(_)) if task.cases.is_none() => {
                let zip = FilesOrZip::Zip(Content::Inline(only.bytes.clone()));
                task.cases = Some(CasesOrFiles::Files(zip));
            }
            (_, Some(_)) => {
                let problem = "are given in a zip and one by one; choose one";
                return Err(InvalidField::new(CASES, problem));
            }
            (uploads, None) => {
                let cases = cases_of_uploads(uploads)?;
                let listed = task.cases.get_or_insert_with(|| CasesOrFiles::Listed(vec![]));
                let CasesOrFiles::Listed(listed) = listed else {
                    let problem = "are given in a zip and one by one; choose one";
                    return Err(InvalidField::new(CASES, problem));
                };
                listed.extend(cases.into_iter().map(api::Case::from));
            }
        }
        Ok(())
    }
}

impl UploadedFile {
    pub(in crate::pages::run) fn is_zip(&self) -> bool {
        is_zip(&self.path)
    }
}

pub(in crate::pages::run) fn is_zip(path: &str) -> bool {
    path.to_ascii_lowercase().ends_with(".zip")
}

/// The cases in files that a browser has sent.
pub(in crate::pages::run) fn cases_of_uploads(
    uploads: &[UploadedFile],
) -> Result<Vec<model::Case>, InvalidField> {
    let mut files = TaskFiles::new();
    for UploadedFile { path, bytes } in uploads {
        let at = format!("{CASES}.{path}");
        let path =
            WorkspacePath::new(path.as_str()).map_err(|error| InvalidField::new(&at, error.to_string()))?;
        let content = Content::Inline(bytes.clone());
        let executable = false;
        if files.insert(path, TaskFile { content, executable }).is_some() {
            return Err(InvalidField::new(at, "is given twice; rename one of the files"));
        }
    }
    api::cases_of_files(files)
}

/// A case of a task or of a file as a row of the form. A content that a browser would change is not shown.
pub(in crate::pages::run) fn form_case(case: model::Case) -> FormCase {
    let name = CaseName::to_string(&case.name);
    let points = match case.points {
        Points::ONE => String::new(),
        points => points.to_string(),
    };
    let mut fields = match serde_json::to_value(api::Case::from(case)) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    for shown in ["name", "points"] {
        fields.remove(shown);
    }
    let mut text = |name: &str| {
        let is_shown = |value: &Value| {
            value
                .as_str()
                .is_some_and(|text| !text.is_empty() && is_kept_by_browsers(text))
        };
        match fields.get(name) {
            Some(value) if is_shown(value) => fields
                .remove(name)
                .and_then(|value| value.as_str().map(String::from)),
            _ => None,
        }
        .unwrap_or_default()
    };
    let (input, answer, group) = (text("input"), text("answer"), text("group"));
    // An input is empty unless it is given.
    if fields.get("input") == Some(&json!("")) {
        fields.remove("input");
    }
    let more = match fields.is_empty() {
        true => String::new(),
        false => Value::Object(fields).to_string(),
    };
    FormCase {
        name,
        input,
        answer,
        points,
        group,
        more,
    }
}

/// Browsers send other line ends and characters in another way than they are.
fn is_kept_by_browsers(text: &str) -> bool {
    crate::pages::run::fill_in::is_editable(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(controls: &[(&str, &str)]) -> RunForm {
        let mut form = RunForm::default();
        for (name, value) in controls {
            form.take(name, value.to_string()).unwrap();
        }
        form
    }

    #[test]
    fn rows_become_cases() {
        let check = |controls: &[(&str, &str)], expected: Value| {
            let json = form(controls).to_json().unwrap();
            assert_eq!(json, expected, "{controls:?}");
        };
        check(
            &[("case.name", ""), ("case.input", ""), ("case.answer", "")],
            json!({}),
        );
        check(
            &[
                ("case.name", ""),
                ("case.input", "1 2\r\n"),
                ("case.answer", "3\r\n"),
                ("case.name", " big "),
                ("case.points", "2.5"),
                ("case.group", "g"),
                ("case.more", "{\"args\": [\"-v\"], \"answer\": \"\"}"),
                ("execute.input", "not used"),
                ("stop", "first_failure"),
            ],
            json!({
                "cases": [
                    {"name": "1", "input": "1 2\n", "answer": "3\n"},
                    {"name": "big", "points": 2.5, "group": "g", "args": ["-v"], "answer": ""},
                ],
                "stop": "first_failure",
            }),
        );
        check(&[("problem", " sums ")], json!({"problem": "sums"}));
        check(
            &[
                ("cases_kept", "[{\"name\": \"a\"}]"),
                ("case.name", ""),
                ("case.input", "x"),
            ],
            json!({"cases": [{"name": "a"}, {"name": "2", "input": "x"}]}),
        );
    }

    #[test]
    fn a_chosen_check_takes_the_place_of_the_kept_one() {
        let check = |controls: &[(&str, &str)], expected: Value| {
            let json = form(controls).to_json().unwrap();
            assert_eq!(json, expected, "{controls:?}");
        };
        let kept = "{\"check\": {\"kind\": \"program\"}, \"groups\": {\"g\": {\"score\": \"min\"}}}";
        let groups = json!({"g": {"score": "min"}});
        check(
            &[("check_kept", kept)],
            json!({"check": {"kind": "program"}, "groups": groups}),
        );
        check(
            &[("check_kept", kept), ("check.kind", "lines")],
            json!({"check": {"kind": "lines"}, "groups": groups}),
        );
        check(
            &[("check.float_tolerance", "1e-6")],
            json!({"check": {"kind": "tokens", "float_tolerance": 1e-6}}),
        );
    }

    #[test]
    fn what_is_wrong_is_told_at_the_cases() {
        let check = |controls: &[(&str, &str)], problem: &str| {
            let mut form = RunForm::default();
            let taken: Result<Vec<()>, _> = controls
                .iter()
                .map(|(name, value)| form.take(name, value.to_string()))
                .collect();
            let invalid = taken.and_then(|_| form.to_task().map(drop)).unwrap_err();
            let control = super::super::control_of(&invalid.field);
            assert_eq!(control, Some(CASES), "{controls:?}: {invalid}");
            assert!(invalid.to_string().contains(problem), "{controls:?}: {invalid}");
        };
        check(&[("case.input", "1")], "before the name of its case");
        check(&[("case.name", "a"), ("case.more", "{")], "no JSON");
        check(&[("case.name", "a"), ("case.points", "many")], "points");
        check(
            &[("cases_kept", "{\"zip\": \"\"}"), ("case.name", "a")],
            "choose one",
        );
    }

    #[test]
    fn uploaded_files_become_cases_after_the_rows() {
        let upload = |path: &str, bytes: &'static str| UploadedFile {
            path: path.into(),
            bytes: bytes.into(),
        };
        let mut form = form(&[("language", "python"), ("case.name", "row"), ("case.input", "x")]);
        form.case_uploads = vec![upload("2.in", "b"), upload("2.ans", "B"), upload("1.in", "a")];
        let Some(CasesOrFiles::Listed(cases)) = form.to_task().unwrap().cases else {
            panic!("no list of cases");
        };
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["row", "1", "2"]);
        form.case_uploads = vec![upload("cases.ZIP", "PK")];
        assert_eq!(form.to_task().unwrap_err().field, CASES);
        form.cases.clear();
        let zipped = form.to_task().unwrap().cases;
        assert!(
            matches!(zipped, Some(CasesOrFiles::Files(FilesOrZip::Zip(_)))),
            "{zipped:?}"
        );
    }

    #[test]
    fn a_case_of_a_task_is_the_same_again() {
        let mut case = api::cases_of_files(
            [("a.in", "1 2\n"), ("a.ans", "")]
                .map(|(path, text)| {
                    let content = Content::Inline(text.into());
                    (
                        WorkspacePath::new(path).unwrap(),
                        TaskFile {
                            content,
                            executable: false,
                        },
                    )
                })
                .into(),
        )
        .unwrap()
        .remove(0);
        let row = form_case(case.clone());
        assert_eq!(
            (row.input.as_str(), row.more.as_str()),
            ("1 2\n", "{\"answer\":\"\"}")
        );
        case.input = Content::Inline(bytes::Bytes::from_static(b"\xff"));
        case.args = vec!["-v".into()];
        case.points = model::Points::from_f64(2.5).unwrap();
        let row = form_case(case.clone());
        assert_eq!((row.input.as_str(), row.points.as_str()), ("", "2.5"));
        let form = RunForm {
            cases: vec![row],
            ..form(&[("language", "python")])
        };
        let Some(CasesOrFiles::Listed(again)) = form.to_task().unwrap().cases else {
            panic!("no list of cases");
        };
        assert_eq!(again, [api::Case::from(case)]);
    }
}
