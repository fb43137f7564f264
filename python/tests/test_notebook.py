"""What notebooks show: tables, plots, frames."""

import html.parser
import os
import tempfile
import unittest

import stepcast
from stepcast._notebook import _table

GPT = "scenarios/gpt2-124m-8-h100.yaml"
SEARCH = dict(model="gpt2", cluster="dgx-h100", gpus=8, global_batch=64, sequence_length=1024, threads=1)
TRACE = "validation/explain/busy-cores.json.gz"
TRACED = "scenarios/real/llama-byte-tp2-dp2.yaml"


class Balance(html.parser.HTMLParser):
    """Whether every tag is closed in its order; the texts."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


class Tables(unittest.TestCase):
    def shown(self, result):
        page = Balance(result._repr_html_())
        self.assertEqual(page.open, [])
        return page.texts

    def test_a_forecast(self):
        step = stepcast.forecast(GPT)
        texts = self.shown(step)
        self.assertIn(f"{step.mfu:.1%}", texts)
        self.assertIn("compute", texts)
        self.assertIn("memory of a step", self.shown(stepcast.memory(GPT)))

    def test_a_search_and_a_sweep(self):
        found = stepcast.search_workload(**SEARCH)
        self.assertIn(str(found.best[0]), self.shown(found))
        sweep = stepcast.sweep(GPT, {"layout.micro_batch": [1, 2]})
        self.assertIn("layout.micro_batch", self.shown(sweep))
        self.assertIn("2", self.shown(sweep))

    def test_an_explanation(self):
        alone = stepcast.explain(TRACE)
        self.assertNotIn("waterfall", alone.to_dict())
        self.shown(alone)
        told = stepcast.explain([TRACE], TRACED)
        self.assertIn("The largest causes", str(told))
        parts = told.to_dict()["waterfall"]["parts"]
        self.assertIn(parts[0]["cause"], self.shown(told))
        self.assertEqual(sum(part["time_ps"] for part in parts),
                         told.to_dict()["waterfall"]["difference_ps"])

    def test_texts_are_no_tags(self):
        page = Balance(_table([("<script>", "a & b")], ("<i>",)))
        self.assertEqual((page.open, page.texts), ([], ["<i>", "<script>", "a & b"]))

    def test_a_trace_that_is_not_there(self):
        with self.assertRaises(stepcast.InputError):
            stepcast.explain("no-such-trace.json")
        with self.assertRaises(ValueError):
            stepcast.explain([])


class Plots(unittest.TestCase):
    def setUp(self):
        try:
            import matplotlib
        except ImportError:
            self.skipTest("no matplotlib")
        matplotlib.use("agg")

    def tearDown(self):
        from matplotlib import pyplot

        pyplot.close("all")

    def test_each_result(self):
        step = stepcast.forecast(GPT)
        self.assertEqual(len(step.plot_breakdown().patches), len([s for s in step.breakdown_s.values() if s]))
        self.assertEqual(len(stepcast.search_workload(**SEARCH).plot_front().lines), 2)
        sweep = stepcast.sweep(GPT, {"layout.micro_batch": [1, 2, 4], "cluster.change.node.nvlink.rate": "x1,x2"})
        axes = sweep.plot_step_time()
        self.assertEqual([len(line.get_xdata()) for line in axes.lines], [3, 3])
        self.assertTrue(stepcast.explain(TRACE, TRACED).plot_causes().patches)

    def test_axes_that_are_given(self):
        from matplotlib import pyplot

        axes = pyplot.subplots()[1]
        self.assertIs(stepcast.forecast(GPT).plot_breakdown(axes), axes)


class Frames(unittest.TestCase):
    def setUp(self):
        try:
            import pandas  # noqa: F401
        except ImportError:
            self.skipTest("no pandas")

    def test_a_forecast_is_its_timeline(self):
        step = stepcast.forecast(GPT)
        frame = step.to_pandas()
        self.assertEqual(len(frame), len(step.timeline))
        self.assertEqual(frame.end_ps.max(), step.step_time_ps)
        self.assertIn("compute", set(frame.stream))

    def test_rows_of_the_others(self):
        found = stepcast.search_workload(**SEARCH)
        self.assertEqual(list(found.to_pandas().step_time_s), [one.step_time_s for one in found.best])
        self.assertIn("layout.tensor_parallel", found.to_pandas().columns)
        frame = stepcast.sweep(GPT, {"layout.micro_batch": [1, 2]}).to_pandas()
        self.assertEqual(list(frame["layout.micro_batch"]), ["1", "2"])
        told = stepcast.explain(TRACE, TRACED)
        self.assertEqual(told.to_pandas().time_ps.sum(), told.to_dict()["waterfall"]["difference_ps"])


class ShippedFiles(unittest.TestCase):
    def test_they_are_found_from_any_folder(self):
        here = os.getcwd()
        step = stepcast.forecast(GPT)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                self.assertEqual(stepcast.forecast(GPT).step_time_ps, step.step_time_ps)
                self.assertEqual(stepcast.forecast("gpt2-124m-8-h100").step_time_ps, step.step_time_ps)
                with self.assertRaises(stepcast.InputError):
                    stepcast.forecast("scenarios/no-such.yaml")
            finally:
                os.chdir(here)


if __name__ == "__main__":
    unittest.main()
