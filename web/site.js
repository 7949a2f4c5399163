// Loaded by every page: htmx with its extensions, and small behaviours. Pages work without it, except for live updates.
import "./htmx.js";
import "./event_source.js";
import "htmx-ext-sse";
import "idiomorph/htmx";
import "./behaviours.js";
import "./ages.js";
import "./choose.js";
import "./output.js";
import "./cases.js";
