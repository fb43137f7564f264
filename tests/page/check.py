"""Pages of `-o html` in a real browser: python3 tests/page/check.py PROGRAM [FOLDER for pictures]."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402

PROGRAM = os.path.abspath(sys.argv[1])
PICTURES = sys.argv[2] if len(sys.argv) > 2 else None
DEMO = "scenarios/llama-3.1-405b-16384-h100.yaml"
SMALL = "scenarios/gpt2-124m-8-h100.yaml"

# The least contrast of a text that is seen, by WCAG 2.2 (4.5 : 1 for text of this size).
CONTRAST = """(() => {
  const numbers = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const ground = (e) => { for (; e; e = e.parentElement) { const c = numbers(getComputedStyle(e).backgroundColor); if (c[3] > 0) return c; }
    return [255, 255, 255, 1]; };
  let least = [21, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (!walk.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "title"].includes(e.tagName)) continue;
    const svg = e.namespaceURI.endsWith("svg");
    const a = light(numbers(svg ? getComputedStyle(e).fill : getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < least[0]) least = [ratio, e.tagName + " " + walk.currentNode.textContent.trim().slice(0, 40)];
  }
  return least;
})()"""


def page_of(*arguments):
    path = os.path.join(FOLDER, "page.html")
    with open(path, "wb") as file:
        subprocess.run([PROGRAM, *arguments, "-o", "html"], stdout=file, stderr=subprocess.DEVNULL, check=True)
    return path


class Pages(unittest.TestCase):
    def picture(self, browser, name):
        if PICTURES:
            browser.picture(os.path.join(PICTURES, name + ".png"))

    def named(self, browser, roles):
        tree = browser.call("Accessibility.getFullAXTree")["nodes"]
        return [node.get("name", {}).get("value", "") for node in tree
                if node.get("role", {}).get("value") in roles and not node.get("ignored")]

    def test_demo(self):
        path = page_of("simulate", DEMO)
        self.assertLess(os.path.getsize(path), 2_000_000)
        with Browser() as browser:
            browser.call("Network.enable")
            browser.open(path)
            self.assertEqual(browser.problems(), [])
            asked = [event["params"]["request"]["url"] for event in browser.events
                     if event.get("method") == "Network.requestWillBeSent"]
            self.assertEqual([url for url in asked if not url.startswith(("file:", "data:"))], [])
            spans = browser.run("timeline.lanes.reduce((n, lane) => n + lane.begin.length, 0)")
            self.assertGreater(spans, 50_000)
            self.assertEqual(browser.run("timeline.lanes.every((lane) => lane.end.every((end, i) => "
                                         "end <= timeline.end + 1 && lane.begin[i] < end))"), True)
            self.picture(browser, "simulate")
            report = browser.run("JSON.parse(document.getElementById('report').textContent)")
            own = json.loads(subprocess.run([PROGRAM, "simulate", DEMO, "-o", "json"], capture_output=True, check=True).stdout)
            self.assertEqual(report["step_time_ps"], own["step_time_ps"])

    def test_keys_and_mouse(self):
        with Browser() as browser:
            browser.open(page_of("simulate", SMALL))
            browser.run("document.getElementById('timeline').scrollIntoView(); document.getElementById('timeline').focus()")
            shown = "timeline.to - timeline.from"
            whole = browser.run(shown)
            browser.key("+")
            self.assertAlmostEqual(browser.run(shown) / whole, .6, places=6)
            browser.key("ArrowRight")
            self.assertGreater(browser.run("timeline.from"), 0)
            browser.key("Home")
            self.assertEqual(browser.run(shown), whole)
            browser.key("n")
            first = browser.run("document.getElementById('timeline-detail').textContent")
            browser.key("n")
            second = browser.run("document.getElementById('timeline-detail').textContent")
            self.assertIn("stage 0, rank 0", first)
            self.assertNotEqual(first, second)
            left, top = browser.run("(() => { const r = timeline.canvas.getBoundingClientRect(); return [r.left, r.top]; })()")
            row = browser.run("timeline.rows()[0].y")
            browser.click(left + 400, top + row + 8)
            self.assertNotEqual(browser.run("document.getElementById('timeline-detail').textContent"), second)
            self.assertEqual(browser.problems(), [])

    def test_reads_everywhere(self):
        path = page_of("simulate", SMALL)
        for dark in (False, True):
            for width in (360, 1280, 3840):
                with Browser(width, 900, dark) as browser:
                    browser.open(path)
                    self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), width)
                    ratio, of = browser.run(CONTRAST)
                    self.assertGreaterEqual(ratio, 4.5, of)
                    self.picture(browser, f"simulate-{width}-{'dark' if dark else 'light'}")

    def test_without_script(self):
        with Browser() as browser:
            browser.call("Emulation.setScriptExecutionDisabled", value=True)
            browser.open_unscripted(page_of("simulate", SMALL))
            text = " ".join(self.named(browser, {"StaticText"}))
            for part in ("step time", "37.", "compute", "The timeline needs JavaScript"):
                self.assertIn(part, text)

    def test_names_for_those_who_do_not_see(self):
        with Browser() as browser:
            browser.open(page_of("simulate", SMALL))
            headings = self.named(browser, {"heading"})
            self.assertEqual(headings[0], "GPT-2 124M on 8 H100s")
            self.assertIn("Where the time goes", headings)
            for name in self.named(browser, {"button", "image", "img", "application", "link"}):
                self.assertTrue(name)

    def reads(self, browser, width, dark):
        self.assertLessEqual(browser.run("document.documentElement.scrollWidth"), width)
        ratio, of = browser.run(CONTRAST)
        self.assertGreaterEqual(ratio, 4.5, of)
        self.assertEqual(browser.problems(), [])

    def test_explain(self):
        path = page_of("explain", "validation/explain/busy-cores.json.gz", "--scenario", "scenarios/real/llama-byte-tp2-dp2.yaml")
        for width, dark in ((360, False), (1280, True)):
            with Browser(width, 900, dark) as browser:
                browser.open(path)
                self.reads(browser, width, dark)
                report = browser.run("JSON.parse(document.getElementById('report').textContent)")
                bars = browser.run("[...document.querySelectorAll('#part-1 tbody tr')].map((row) => row.querySelector('th').textContent)")
                self.assertEqual((bars[0], bars[-1]), ("forecast", "measured"))
                self.assertEqual(len(bars), 2 + len(report["waterfall"]["parts"]))
                # Each bar begins where the last one ends, so that they lead from the forecast to the run.
                ends = browser.run("""[...document.querySelectorAll('#part-1 td.bar span')].map((bar) => {
                    const box = bar.getBoundingClientRect(), whole = bar.parentElement.getBoundingClientRect();
                    return [(box.left - whole.left) / whole.width, (box.right - whole.left) / whole.width]; })""")
                for before, bar in zip(ends[1:-2], ends[2:-1]):
                    self.assertTrue(any(abs(a - b) < .02 for a in before for b in bar), (before, bar))
                self.picture(browser, f"explain-{width}")

    def test_search(self):
        path = page_of("search", "--model", "gpt2", "--cluster", "dgx-h100", "--gpus", "16", "--batch", "64", "--sequence", "1024",
                       "--no-progress")
        for width, dark in ((360, True), (1280, False)):
            with Browser(width, 900, dark) as browser:
                browser.open(path)
                self.reads(browser, width, dark)
                report = browser.run("JSON.parse(document.getElementById('report').textContent)")
                self.assertEqual(browser.run("document.querySelectorAll('#part-1 tbody tr').length"), len(report["best"]))
                points = browser.run("document.querySelectorAll('svg .point').length")
                self.assertGreaterEqual(points, len(report["best"]))
                self.assertEqual(browser.run("[...document.querySelectorAll('svg .point')].every((p) => p.querySelector('title').textContent)"),
                                 True)
                self.picture(browser, f"search-{width}")

    def test_names_that_look_like_markup_are_text(self):
        name = ("</script><script>document.title = 'ran'</script> [a](javascript:void) <img src=x> "
                "![b](http://localhost:9/b.png)")
        for arguments in (("simulate", SMALL), ("budget", SMALL, "--tokens", "1e9")):
            with Browser() as browser:
                browser.open(page_of(*arguments, "--set", "name=" + name))
                self.assertEqual(browser.problems(), [])
                self.assertNotEqual(browser.run("document.title"), "ran")
                self.assertEqual(browser.run("document.querySelectorAll('img, a:not([href^=\"#\"])').length"), 0)

    def test_other_commands(self):
        for arguments in (("compare", SMALL, SMALL), ("memory", SMALL),
                          ("budget", "scenarios/llama-3.1-70b-512-h100.yaml", "--tokens", "1e12")):
            with Browser() as browser:
                browser.open(page_of(*arguments))
                self.assertEqual(browser.problems(), [])
                self.assertGreater(browser.run("document.querySelectorAll('table tbody tr').length"), 0, arguments)
                self.picture(browser, arguments[0])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as FOLDER:
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=1).result
    sys.exit(not result.wasSuccessful())
