"""Chromium without a screen, driven over its DevTools protocol through a pipe: no library is needed."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile


def find():
    return next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)


class Browser:
    def __init__(self, width=1280, height=900, dark=False):
        self.folder = tempfile.mkdtemp(prefix="stepcast-page-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()

        def streams():  # the browser reads from 3 and writes to 4
            os.dup2(to_browser, 13)
            os.dup2(from_browser, 14)
            os.dup2(13, 3)
            os.dup2(14, 4)

        self._process = subprocess.Popen(
            [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--hide-scrollbars",
             "--user-data-dir=" + self.folder, "--no-first-run", "--disable-dev-shm-usage"],
            preexec_fn=streams, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._id, self.events = b"", 0, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            self.call(domain + ".enable")
        self.size(width, height)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _message(self):
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], 120)[0]:
                raise TimeoutError("the browser does not answer")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser has ended")
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def call(self, method, **parameters):
        self._id += 1
        message = {"id": self._id, "method": method, "params": parameters}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self._write, text):]
        while True:
            answer = self._message()
            if answer.get("id") == self._id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, path):
        self.events.clear()
        self.call("Page.navigate", url=path if path.startswith("http:") else "file://" + os.path.abspath(path))
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def open_unscripted(self, path):
        """For pages whose scripts are switched off: nothing of theirs is waited for."""
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def run(self, script):
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", script))
        return result["result"].get("value")

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=key if len(key) == 1 else "")

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def problems(self):
        """What the page logged as an error, and requests that it made."""
        found = []
        for event in self.events:
            of = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(of["exceptionDetails"]["text"])
            if event.get("method") == "Log.entryAdded" and of["entry"]["level"] == "error":
                found.append(of["entry"]["text"])
            if event.get("method") == "Runtime.consoleAPICalled" and of["type"] == "error":
                found.append(str(of["args"]))
        return found

    def picture(self, path, whole=False):
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
