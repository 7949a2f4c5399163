// Live updates stop while the page is hidden and go on when it is visible again. If they stop for another reason, the page says so.
import htmx from "./htmx.js";
import { announce } from "./behaviours.js";

// An interruption that lasts no longer is not worth a word: every stream ends now and then.
const PATIENCE = 5000;

// Why streams of this page are not connected: "signed out" or "no answer".
const interruptions = new Map();

function showInterruptions() {
  const reasons = [...interruptions.values()];
  const reason = reasons.includes("signed out") ? "signed out" : (reasons[0] ?? "");
  const shown = document.getElementById("connection");
  if (reason === (shown?.dataset.reason ?? "")) return;
  shown?.remove();
  if (!reason) return announce("The page is up to date again.");
  const notice = document.createElement("p");
  Object.assign(notice, { id: "connection", className: "notice busy" });
  notice.dataset.reason = reason;
  if (reason === "signed out") {
    const link = document.createElement("a");
    Object.assign(link, { href: `/sign-in?next=${encodeURIComponent(location.pathname + location.search)}`, textContent: "Sign in" });
    notice.append("You are not signed in any more, so this page does not change. ", link);
  } else {
    notice.append("The server sends no updates, so this page may be out of date. It goes on by itself when the server answers again.");
  }
  document.querySelector("main").prepend(notice);
  announce(notice.textContent);
}

// An EventSource for htmx's extension that is closed while the page is hidden.
class PausedEventSource {
  onopen = null;
  onerror = null;
  #url;
  #source = null;
  #listeners = [];
  // How often the server has refused the request one after another.
  #refusals = 0;
  #timer = 0;
  // Runs while there is no connection.
  #patience = 0;
  #closed = false;

  constructor(url) {
    this.#url = url;
    document.addEventListener("visibilitychange", this.#onVisibility);
    this.#onVisibility();
  }

  get readyState() {
    if (this.#closed) return EventSource.CLOSED;
    return this.#source ? this.#source.readyState : EventSource.CONNECTING;
  }

  addEventListener(name, listener) {
    this.#listeners.push([name, listener]);
    this.#source?.addEventListener(name, listener);
  }

  removeEventListener(name, listener) {
    this.#listeners = this.#listeners.filter(([other, known]) => other !== name || known !== listener);
    this.#source?.removeEventListener(name, listener);
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#isConnected();
    document.removeEventListener("visibilitychange", this.#onVisibility);
    this.#source?.close();
    this.#source = null;
  }

  #onVisibility = () => {
    if (document.hidden) {
      clearTimeout(this.#patience);
      this.#patience = 0;
      this.#source?.close();
      this.#source = null;
    } else if (!this.#source && !this.#closed) {
      this.#open();
    }
  };

  #isConnected() {
    clearTimeout(this.#patience);
    this.#patience = 0;
    interruptions.delete(this);
    showInterruptions();
  }

  // A stream does not tell the status of an answer.
  #sayWhy = async () => {
    const pending = this.#patience;
    const answer = await fetch(this.#url, { method: "HEAD", cache: "no-store" }).catch(() => null);
    // It is connected, closed or hidden by now.
    if (this.#patience !== pending) return;
    this.#patience = 0;
    if (answer?.ok) return;
    interruptions.set(this, answer?.status === 401 ? "signed out" : "no answer");
    showInterruptions();
  };

  #open() {
    const source = new EventSource(this.#url);
    this.#source = source;
    source.onopen = (event) => {
      this.#refusals = 0;
      this.#isConnected();
      this.onopen?.(event);
    };
    source.onerror = (event) => {
      this.#patience ||= setTimeout(this.#sayWhy, PATIENCE);
      // The server has refused the request, because it is busy or starts. The extension would make another EventSource
      // without the listeners of the page's parts, so this one tries again.
      if (source.readyState === EventSource.CLOSED && this.#source === source) {
        this.#source = null;
        const pause = Math.min(60, 2 ** this.#refusals) * (500 + 500 * Math.random());
        this.#refusals += 1;
        this.#timer = setTimeout(this.#onVisibility, pause);
      }
      this.onerror?.(event);
    };
    for (const [name, listener] of this.#listeners) source.addEventListener(name, listener);
  }
}

htmx.createEventSource = (url) => new PausedEventSource(url);
