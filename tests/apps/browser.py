# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A headless Chromium, driven by chromedriver's WebDriver: what tests of pages need of it."""
import base64
import json
import os
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Failed(Exception):
    pass


class Browser:
    def __init__(self, width=1500, height=1000):
        self.folder = tempfile.TemporaryDirectory()
        log = open(os.path.join(self.folder.name, "log"), "w+")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=log,
                                       stdin=subprocess.DEVNULL, text=True)
        for line in self.driver.stdout:
            if "started successfully on port" in line:
                port = int(line.rstrip(".\n").split()[-1])
                break
        else:
            raise Failed("chromedriver does not start")
        self.at = f"http://127.0.0.1:{port}/session"
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-proxy-server",
                            "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-extensions",
                            "--disable-background-networking", "--hide-scrollbars",
                            f"--window-size={width},{height}", f"--user-data-dir={self.folder.name}/profile"]}
        answer = self.ask("POST", "", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}})
        self.at += "/" + answer["sessionId"]

    def __enter__(self):
        return self

    def __exit__(self, *what):
        try:
            self.ask("DELETE", "")
        except (Failed, OSError):
            pass
        self.driver.terminate()
        self.driver.wait()
        self.folder.cleanup()

    def ask(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.at + path, data=data, method=method,
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise Failed(json.load(error)["value"]["message"].splitlines()[0]) from None

    def go(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *args):
        """What a function's body returns, also when it awaits."""
        return self.ask("POST", "/execute/sync", {"script": f"return (async () => {{ {script} }}).apply(null, arguments)",
                                                  "args": list(args)})

    def until(self, expression, seconds=60):
        """Waits until an expression is true in the page, and returns it."""
        end = time.monotonic() + seconds
        while True:
            value = self.run(f"return {expression}")
            if value:
                return value
            if time.monotonic() > end:
                raise Failed(f"never: {expression}\n{self.run('return document.body.innerText')[:2000]}")
            time.sleep(0.01)

    def find(self, css):
        return self.ask("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        """A click as the mouse does it: on what is to be seen there."""
        self.until(f"document.querySelector({json.dumps(css)})")
        self.ask("POST", f"/element/{self.find(css)}/click", {})

    def type(self, css, text):
        self.ask("POST", f"/element/{self.find(css)}/value", {"text": text})

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", "/screenshot")))

    def complaints(self):
        """What the page has logged as wrong."""
        return [line["message"] for line in self.ask("POST", "/se/log", {"type": "browser"}) if line["level"] == "SEVERE"]
