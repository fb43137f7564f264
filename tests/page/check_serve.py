"""`stepcast serve` over a real socket and in a real browser: python3 tests/page/check_serve.py PROGRAM."""
import concurrent.futures
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
JOB = json.dumps({"scenario": "gpt2-124m-8-h100"})


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen([PROGRAM, "serve", "--port", "0", *options], stderr=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)/", self.process.stderr.readline())[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.process.stderr.close()

    def ask(self, method, path, body=None, **headers):
        link = http.client.HTTPConnection("127.0.0.1", self.port)
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        link.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        return answer.status, text

    def raw(self, text):
        """What is sent back to bytes that may be no HTTP; empty: the connection is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as link:
            link.sendall(text)
            link.shutdown(socket.SHUT_WR)
            try:
                return link.recv(4096)
            except ConnectionError:
                return b""


class Serve(unittest.TestCase):
    def test_a_thousand_requests(self):
        with Server() as server:
            def ask(i):
                if i % 10 == 0:
                    return server.ask("POST", "/v1/forecast", JOB)[0] in (200, 429)
                return server.ask("GET", ("/v1/models", "/v1/clusters", "/", "/none")[i % 4])[0] in (200, 404)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.assertTrue(all(pool.map(ask, range(1000))))
            self.assertEqual(server.ask("POST", "/v1/forecast", JOB)[0], 200)

    def test_hostile(self):
        with Server() as server:
            for text in (b"", b"\0" * 4096, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"POST /v1/forecast HTTP/1.1\r\n\r\n",
                         b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n{}",
                         b"POST /v1/forecast HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                         b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
                         b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"):
                self.assertNotIn(b"root:", server.raw(text))
            idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]  # say nothing
            self.assertEqual(server.ask("POST", "/v1/forecast", JOB)[0], 200)
            for link in idle:
                link.close()
            self.assertEqual(server.ask("POST", "/v1/forecast", b"[" * 500_000)[0], 422)
            self.assertEqual(server.ask("POST", "/v1/forecast", b" " * (2 << 20))[0], 413)
            self.assertEqual(server.ask("GET", "/v1/models", Host="attacker.example")[0], 401)
            self.assertIsNone(server.process.poll())

    def test_other_addresses_need_a_token(self):
        refused = subprocess.run([PROGRAM, "serve", "--address", "0.0.0.0"], stderr=subprocess.PIPE, text=True)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("--token-file", refused.stderr)
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("0123456789abcdef\n")
            file.flush()
            with Server("--token-file", file.name, "--address", "0.0.0.0") as server:
                self.assertEqual(server.ask("GET", "/v1/models")[0], 401)
                self.assertEqual(server.ask("GET", "/v1/models", Authorization="Bearer 0123456789abcdef")[0], 200)
        with Server() as first:
            taken = subprocess.run([PROGRAM, "serve", "--port", str(first.port)], stderr=subprocess.PIPE, text=True)
            self.assertEqual(taken.returncode, 1)
            self.assertIn("in use", taken.stderr)

    @unittest.skipUnless(find(), "no chromium")
    def test_form(self):
        with Server() as server, Browser(1200, 900) as browser:
            browser.open(f"http://127.0.0.1:{server.port}/")
            until(browser, "document.querySelectorAll('select option').length > 5")
            browser.run("""(() => { const form = document.getElementById('forecast');
                form.scenario.value = 'gpt2-124m-8-h100'; form['layout.micro_batch'].value = '2'; form.requestSubmit(); })()""")
            until(browser, "(document.getElementById('result').contentDocument?.body?.textContent || '').includes('step time')")
            until(browser, "!document.querySelector('#forecast button').disabled")
            browser.run("""(() => { const form = document.getElementById('forecast');
                form.more.value = 'layout.micro=2'; form.requestSubmit(); })()""")
            until(browser, "document.getElementById('said').textContent.includes('micro_batch')")
            browser.run("""(() => { const form = document.getElementById('search');
                form.model.value = 'gpt2'; form.gpus.value = '8'; form.batch.value = '64'; form.sequence.value = '1024'; form.requestSubmit(); })()""")
            until(browser, "(document.getElementById('result').contentDocument?.body?.textContent || '').includes('Best layout')")
            if len(sys.argv) > 2:
                browser.picture(os.path.join(sys.argv[2], "serve.png"))
            self.assertEqual([problem for problem in browser.problems() if "422" not in problem], [])


def until(browser, what):
    """Waits for it to hold, as long as the test may take."""
    while not browser.run(what):
        time.sleep(.05)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=1).result
    sys.exit(not result.wasSuccessful())
