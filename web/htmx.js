// htmx for the extensions, which look for it in the window.
import htmx from "htmx.org";

window.htmx = htmx;
htmx.config.allowEval = false;
htmx.config.allowScriptTags = false;
htmx.config.includeIndicatorStyles = false;
htmx.config.selfRequestsOnly = true;
htmx.config.historyEnabled = false;

export default htmx;
