// Live updates stop while the page is hidden and go on when it is visible again.
import htmx from "./htmx.js";

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
    document.removeEventListener("visibilitychange", this.#onVisibility);
    this.#source?.close();
    this.#source = null;
  }

  #onVisibility = () => {
    if (document.hidden) {
      this.#source?.close();
      this.#source = null;
    } else if (!this.#source && !this.#closed) {
      this.#open();
    }
  };

  #open() {
    const source = new EventSource(this.#url);
    this.#source = source;
    source.onopen = (event) => {
      this.#refusals = 0;
      this.onopen?.(event);
    };
    source.onerror = (event) => {
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
