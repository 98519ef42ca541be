// A browser starts no worker from a file on the disk. There the search of the theme runs in a hidden frame instead.
// The theme's own answer to this is a script from another site (`iframe-worker`), and these pages need no network.
(() => {
  if (location.protocol !== "file:") return;

  class FrameWorker extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      // What a worker's script calls: answers go to this object, and other scripts are loaded one after the other.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = async (...addresses) => {
        for (const each of addresses) await loaded(inside.document, each);
      };
      this.ready = loaded(inside.document, address);
      this.ready.catch((error) => this.dispatchEvent(new ErrorEvent("error", { message: error.message })));
    }

    postMessage(data) {
      const told = structuredClone(data);
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: told })), () => {});
    }

    terminate() {
      this.frame.remove();
    }
  }

  function loaded(page, address) {
    return new Promise((done, failed) => {
      const script = page.createElement("script");
      script.onload = done;
      script.onerror = () => failed(new Error(`${address} cannot be loaded`));
      script.src = address;
      page.body.append(script);
    });
  }

  window.Worker = FrameWorker;
  // The theme's worker looks for this name to find its languages.
  window.IFrameWorker = FrameWorker;
})();
