"""Progress of long calls in a notebook, with a stand-in for IPython."""

import sys
import types
import unittest
from unittest import mock

import stepcast
from stepcast import _progress

GPT = "scenarios/gpt2-124m-8-h100.yaml"


class ZMQInteractiveShell:
    pass


def notebook(lines):
    """Modules as they are in a Jupyter kernel; `lines` hears what is shown."""
    def display(data, raw, display_id):
        lines.append(data["text/plain"])
        return types.SimpleNamespace(update=lambda data, raw: lines.append(data["text/plain"]))

    shell = types.ModuleType("IPython")
    shell.get_ipython = ZMQInteractiveShell
    shell.display = types.ModuleType("IPython.display")
    shell.display.display = display
    return mock.patch.dict(sys.modules, {"IPython": shell, "IPython.display": shell.display})


class Progress(unittest.TestCase):
    def test_a_search_says_how_far_it_is_and_clears_its_line(self):
        lines = []
        with notebook(lines), mock.patch.object(_progress, "EVERY_S", 0):
            found = stepcast.search(GPT, threads=1)
        self.assertTrue(found.favourite)
        self.assertIn("simulated", lines[0])
        self.assertEqual(lines[-1], "")

    def test_short_calls_and_other_shells_show_nothing(self):
        lines = []
        with notebook(lines), mock.patch.object(_progress, "EVERY_S", 1e9):
            stepcast.forecast(GPT)
        with mock.patch.object(_progress, "EVERY_S", 0):
            stepcast.forecast(GPT)
        self.assertEqual(lines, [])

    def test_a_progress_of_ones_own_is_kept(self):
        lines, told = [], []
        with notebook(lines), mock.patch.object(_progress, "EVERY_S", 0):
            stepcast.sweep(GPT, {"layout.micro_batch": [1, 2]}, progress=lambda *now: told.append(now))
        self.assertEqual(lines, [])
        self.assertTrue(told)

    def test_texts(self):
        self.assertEqual(_progress._text("plan", 0.5), "plan: 50%")
        self.assertEqual(_progress._text(3, 8), "3 of 8 points")
        self.assertEqual(_progress._text({"layouts": 1200, "decided": 7, "seconds": 0.5, "best_step_time_s": 2.5}),
                         "layouts: 1,200, decided: 7, best step: 2.5 s")


if __name__ == "__main__":
    unittest.main()
