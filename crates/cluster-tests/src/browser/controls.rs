//! Finds and uses controls by their accessible names, as a person or a screen reader does.

use serde_json::json;

use super::waits::APPEARS;
use super::{Browser, PageElement};
use crate::wait_until;

/// Keys without a character, by their numbers in WebDriver.
pub struct Key;

impl Key {
    pub const CONTROL: char = '\u{e009}';
    pub const DELETE: char = '\u{e017}';
    pub const ENTER: char = '\u{e007}';
    pub const ESCAPE: char = '\u{e00c}';
    pub const LEFT: char = '\u{e012}';
    pub const TAB: char = '\u{e004}';
}

/// Visible, enabled elements that match a selector and whose name may contain a text. Their real name is compared later.
const CANDIDATES: &str = r"
    const [selector, name] = arguments;
    const texts = element => [
        element.innerText, element.textContent, element.value, element.title, element.placeholder, element.alt,
        element.getAttribute('aria-label'),
        ...Array.from(element.labels || [], label => label.textContent),
        ...(element.getAttribute('aria-labelledby') || '').split(/\s+/)
            .map(id => document.getElementById(id)?.textContent),
    ];
    return Array.from(document.querySelectorAll(selector)).filter(element =>
        !element.disabled && element.checkVisibility({visibilityProperty: true})
        && texts(element).some(text => text && text.includes(name)));
";

/// What kind of control a name belongs to.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    Button,
    Link,
    /// Something to type into, choose from or tick.
    Field,
    Tab,
    /// The line that unfolds details.
    Summary,
    Heading,
}

impl Role {
    fn selector(self) -> &'static str {
        match self {
            Role::Button => "button, [role=button], input[type=submit], input[type=button]",
            Role::Link => "a[href]",
            Role::Field => "input, textarea, select, [contenteditable=true], [role=textbox], [role=combobox]",
            Role::Tab => "[role=tab]",
            Role::Summary => "summary",
            Role::Heading => "h1, h2, h3, h4",
        }
    }
}

impl Browser {
    /// Waits for the control with this name. A control whose whole name it is goes before one whose name contains it.
    pub async fn control(&self, role: Role, name: &str) -> PageElement<'_> {
        let what = format!("the {role:?} {name:?}");
        wait_until(&what, APPEARS, async || self.find_control(role, name).await).await
    }

    /// Whether there is a control with this name just now.
    pub async fn has_control(&self, role: Role, name: &str) -> bool {
        self.find_control(role, name).await.is_some()
    }

    async fn find_control(&self, role: Role, name: &str) -> Option<PageElement<'_>> {
        let arguments = [json!(role.selector()), json!(name)];
        let found = self.session.execute(CANDIDATES, &arguments).await.ok()?;
        let mut containing = None;
        for element in self.session.elements(&found) {
            match element.label().await {
                Ok(label) if label == name => return Some(element),
                Ok(label) if label.contains(name) && containing.is_none() => containing = Some(element),
                // The page may have replaced the element meanwhile.
                _ => {}
            }
        }
        containing
    }

    /// Clicks the control with this name.
    pub async fn click(&self, role: Role, name: &str) {
        wait_until(
            &format!("the {role:?} {name:?} to be clicked"),
            APPEARS,
            async || {
                // A live page may replace the element between both steps; a refused click has clicked nothing.
                self.find_control(role, name).await?.click().await.ok()
            },
        )
        .await;
    }

    /// Replaces the text of the field with this label.
    pub async fn fill(&self, label: &str, text: &str) {
        let field = self.control(Role::Field, label).await;
        field.click().await.expect("the field is clicked");
        self.press(&[Key::CONTROL, 'a']).await;
        self.press(&[Key::DELETE]).await;
        self.type_text(text).await;
    }

    /// Types a text where the focus is.
    pub async fn type_text(&self, text: &str) {
        let focused = self.session.focused().await.expect("a focused element");
        focused.type_text(text).await.expect("the text is typed");
    }

    /// Chooses an option by its text, in the list with this label.
    pub async fn choose(&self, label: &str, option: &str) {
        let list = self.control(Role::Field, label).await;
        let script = "const [list, text] = arguments;\
            const option = Array.from(list.options).find(option => option.text.trim() === text);\
            if (option) { list.value = option.value; list.dispatchEvent(new Event('change', {bubbles: true})); }\
            return Boolean(option)";
        let chosen = self.script(script, &[list.argument(), json!(option)]).await;
        assert_eq!(chosen, true, "no option {option:?} in {label:?}");
    }

    /// The current value of the field with this label.
    pub async fn value(&self, label: &str) -> String {
        let field = self.control(Role::Field, label).await;
        let script = "const e = arguments[0]; return e.value ?? e.innerText";
        let value = self.script(script, &[field.argument()]).await;
        value.as_str().unwrap_or_default().to_string()
    }

    /// Gives the field for files that matches a CSS selector some files of this machine.
    pub async fn choose_files(&self, css: &str, paths: &[&std::path::Path]) {
        let fields = self.session.find_all(css).await.expect("a field for files");
        let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        let chosen = fields[0].type_text(&paths.join("\n")).await;
        chosen.expect("files are chosen");
    }

    /// Answers the question that a page asks before it does something with yes.
    pub async fn accept_question(&self) {
        wait_until("a question", APPEARS, async || {
            self.session.post("alert/accept", json!({})).await.ok()
        })
        .await;
    }

    /// Presses these keys together, for example Control and Enter.
    pub async fn press(&self, keys: &[char]) {
        let act = |kind: &str, key: &char| json!({"type": kind, "value": key});
        let down = keys.iter().map(|key| act("keyDown", key));
        let up = keys.iter().rev().map(|key| act("keyUp", key));
        let actions: Vec<_> = down.chain(up).collect();
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": actions});
        let pressed = self.session.post("actions", json!({"actions": [keyboard]})).await;
        pressed.expect("keys are pressed");
    }

    /// The name that assistive technology gives to the element with the focus, and its role.
    pub async fn focused(&self) -> (String, String) {
        let element = self.session.focused().await.expect("a focused element");
        let (label, role) = (element.label().await, element.role().await);
        (label.unwrap_or_default(), role.unwrap_or_default())
    }
}
