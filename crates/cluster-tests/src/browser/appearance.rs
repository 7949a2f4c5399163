//! How a page looks: the size of the window, light and dark, sideways scrolling, pictures.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Browser;

/// The colours that a reader prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorScheme {
    Light,
    Dark,
}

impl ColorScheme {
    pub const BOTH: [ColorScheme; 2] = [ColorScheme::Light, ColorScheme::Dark];

    pub fn name(self) -> &'static str {
        match self {
            ColorScheme::Light => "light",
            ColorScheme::Dark => "dark",
        }
    }
}

impl Browser {
    /// Makes the page this many CSS pixels wide and high.
    pub async fn resize(&self, (width, height): (u32, u32)) {
        // A window cannot be as narrow as a phone.
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Prefers these colours from now on.
    pub async fn prefer(&self, scheme: ColorScheme) {
        let features = json!([
            {"name": "prefers-color-scheme", "value": scheme.name()},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]);
        self.devtools("Emulation.setEmulatedMedia", json!({"features": features}))
            .await;
    }

    /// Shows times as in this zone, for example `Asia/Tokyo`.
    pub async fn move_to_zone(&self, zone: &str) {
        self.devtools("Emulation.setTimezoneOverride", json!({"timezoneId": zone}))
            .await;
    }

    /// Asserts that the page is not wider than the window.
    pub async fn assert_no_sideways_scroll(&self) {
        let wide = self.wider_than_window().await;
        assert!(wide.is_empty(), "{} scrolls sideways:\n{wide}", self.path().await);
    }

    /// The elements because of which the page is wider than the window. Empty if it is not.
    pub async fn wider_than_window(&self) -> String {
        let script = r"
            const width = document.documentElement.clientWidth;
            if (document.documentElement.scrollWidth <= width) return '';
            return Array.from(document.querySelectorAll('body *'))
                .filter(e => e.getBoundingClientRect().right > width + 0.5)
                .map(e => e.outerHTML.slice(0, 120)).slice(0, 5).join('\n') || 'an element without a box';
        ";
        let wide = self.script(script, &[]).await;
        wide.as_str().unwrap_or_default().to_string()
    }

    /// Saves the whole page as PNG.
    pub async fn save_picture(&self, path: &Path) {
        let metrics = self.devtools("Page.getLayoutMetrics", json!({})).await;
        let content = &metrics["cssContentSize"];
        let clip = json!({
            "x": 0, "y": 0, "width": content["width"], "scale": 1,
            "height": content["height"].as_f64().unwrap_or_default().min(6_000.0),
        });
        let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let picture = self.devtools("Page.captureScreenshot", wanted).await;
        let bytes = STANDARD.decode(picture["data"].as_str().unwrap_or_default());
        std::fs::write(path, bytes.expect("a picture")).expect("the picture is saved");
    }
}
