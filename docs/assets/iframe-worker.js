// Search without a server: browsers start no worker from a file on disk, so there it runs in a
// hidden frame. Behind http nothing is changed. Messages are cloned into the realm that receives
// them, as a worker's are.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = (this.inside = frame.contentWindow)
      inside.postMessage = data =>
        this.dispatchEvent(new MessageEvent("message", { data: window.structuredClone(data) }))
      const script = inside.document.createElement("script")
      this.ready = new Promise((resolve, reject) => {
        script.onload = resolve
        script.onerror = reject
      })
      script.src = url
      inside.document.head.appendChild(script)
    }

    async postMessage(data) {
      await this.ready
      const event = new this.inside.MessageEvent("message", {
        data: this.inside.structuredClone(data)
      })
      this.inside.dispatchEvent(event)
    }
  }
  window.Worker = window.IFrameWorker
}
