"""The module as a user calls it. Run from the root of the source tree, see python/README.md."""

import json
import os
import signal
import tempfile
import threading
import unittest

import stepcast

GPT = "scenarios/gpt2-124m-8-h100.yaml"
LLAMA = "scenarios/llama-3.1-70b-512-h100.yaml"


class Forecasts(unittest.TestCase):
    def test_figures_are_those_of_the_dict(self):
        step = stepcast.forecast(GPT)
        told = step.to_dict()
        self.assertEqual(step.step_time_s, told["step_time_s"])
        self.assertEqual(step.step_time_ps, told["step_time_ps"])
        self.assertEqual(step.mfu, told["mfu"])
        self.assertEqual(step.gpus, 8)
        self.assertTrue(step.fits)
        self.assertEqual(step.peak_memory_bytes, told["peak_mem_bytes"])
        self.assertEqual(step.layout["tensor_parallel"], 1)
        self.assertEqual(json.loads(step.to_json()), told)
        self.assertAlmostEqual(sum(step.breakdown_s.values()), step.step_time_s, places=9)
        self.assertEqual(step.what_if_s, {})
        self.assertIn("GiB", repr(step))

    def test_overrides_of_every_kind_of_value(self):
        step = stepcast.forecast(
            LLAMA,
            {
                "layout.tensor_parallel": 4,
                "layout.sequence_parallel": True,
                "layout.recompute": "full",
                "cluster.change.node.nvlink.rate": "x2",
            },
        )
        self.assertEqual(step.layout["tensor_parallel"], 4)
        self.assertEqual(step.layout["recompute"], "full")
        with self.assertRaises(TypeError):
            stepcast.forecast(LLAMA, {"layout.tensor_parallel": object()})

    def test_paths_may_be_path_objects(self):
        import pathlib

        self.assertEqual(
            stepcast.forecast(pathlib.Path(GPT)).step_time_ps, stepcast.forecast(GPT).step_time_ps
        )

    def test_a_scenario_as_a_dict(self):
        scenario = {
            "name": "GPT-2 on one node",
            "model": "models/gpt2.yaml",
            "cluster": {"path": "topologies/dgx-h100.yaml", "nodes": 1},
            "layout": {"data_parallel": 8, "sequence_length": 1024, "global_batch": 64, "micro_batch": 8},
        }
        step = stepcast.forecast(scenario)
        self.assertEqual(step.gpus, 8)
        self.assertEqual(stepcast.forecast(scenario, {"layout.micro_batch": 4}).layout["micro_batch"], 4)
        scenario["layout"]["micro_bathc"] = 1
        with self.assertRaises(stepcast.InputError) as raised:
            stepcast.forecast(scenario)
        self.assertEqual(raised.exception.file, "scenario")
        self.assertGreater(raised.exception.line, 1)

    def test_what_ifs_and_progress(self):
        told = []
        step = stepcast.forecast(LLAMA, what_if=True, progress=lambda phase, share: told.append(phase))
        self.assertIn("compute", step.what_if_s)
        self.assertLess(step.what_if_s["compute"], step.step_time_s)
        self.assertEqual(told[-1], "done")

    def test_memory_alone(self):
        memory = stepcast.memory(LLAMA)
        self.assertEqual(memory.peak_memory_bytes, stepcast.forecast(LLAMA).peak_memory_bytes)
        self.assertNotIn("step_time_s", memory.to_dict())

    def test_pictures_and_traces(self):
        step = stepcast.forecast(GPT)
        self.assertTrue(step.to_svg().startswith("<svg") or "<svg" in step.to_svg()[:200])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            step.save_trace(path)
            with open(path) as trace:
                self.assertTrue(json.load(trace))

    def test_an_exception_of_the_callback_ends_the_forecast(self):
        def refuse(phase, share):
            raise LookupError(phase)

        with self.assertRaises(LookupError):
            stepcast.forecast(LLAMA, what_if=True, progress=refuse)


class Timelines(unittest.TestCase):
    def test_columns_are_buffers(self):
        step = stepcast.forecast(GPT)
        columns = step.timeline.columns()
        self.assertEqual(len({len(column) for column in columns.values()}), 1)
        end = memoryview(columns["end_ps"])
        self.assertEqual(end.itemsize, 8)
        self.assertEqual(max(end), step.step_time_ps)
        names = step.timeline.names
        self.assertTrue(all(0 <= name < len(names) for name in columns["name"]))
        self.assertIn("compute", step.timeline.streams)
        with self.assertRaises(IndexError):
            columns["rank"][len(columns["rank"])]

    def test_columns_outlive_the_forecast(self):
        columns = stepcast.forecast(GPT).timeline.columns()
        begin, end = memoryview(columns["begin_ps"]), memoryview(columns["end_ps"])
        del columns
        self.assertTrue(all(first <= last for first, last in zip(begin, end)))

    def test_numpy_takes_them_without_a_copy(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        column = stepcast.forecast(GPT).timeline.columns()["end_ps"]
        first, second = numpy.asarray(column), numpy.asarray(column)
        self.assertEqual(first.dtype, numpy.int64)
        self.assertEqual(first.ctypes.data, second.ctypes.data)

    def test_pandas_takes_them(self):
        try:
            import numpy
            import pandas
        except ImportError:
            self.skipTest("no pandas")
        timeline = stepcast.forecast(GPT).timeline
        frame = pandas.DataFrame(
            {name: numpy.asarray(column) for name, column in timeline.columns().items()}
        )
        self.assertEqual(len(frame), len(timeline))
        busy = (frame.end_ps - frame.active_ps).groupby(frame.stream).sum()
        self.assertGreater(busy[timeline.streams.index("compute")], 0)


class Errors(unittest.TestCase):
    def test_a_mistake_knows_its_place(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            with open(GPT) as good:
                file.write(good.read().replace("../", os.getcwd() + "/").replace("layout:", "layuot:"))
            file.flush()
            with self.assertRaises(stepcast.InputError) as raised:
                stepcast.forecast(file.name)
            self.assertEqual(raised.exception.file, file.name)
            self.assertGreater(raised.exception.line, 1)
            self.assertEqual(raised.exception.column, 1)
            self.assertIn("layuot", raised.exception.problems[0].what)
            self.assertIsInstance(raised.exception, ValueError)

    def test_all_mistakes_of_overrides_at_once(self):
        with self.assertRaises(stepcast.InputError) as raised:
            stepcast.forecast(GPT, {"layout.tensor_paralel": 2, "layout.micro_batch": "many"})
        self.assertGreaterEqual(len(raised.exception.problems), 2)
        self.assertEqual(raised.exception.file, "--set")

    def test_a_file_that_is_not_there(self):
        with self.assertRaises(stepcast.InputError):
            stepcast.forecast("no-such-file.yaml")


class Searches(unittest.TestCase):
    def test_a_workload(self):
        told = []
        result = stepcast.search_workload(
            "gpt2", "dgx-h100", gpus=8, global_batch=64, sequence_length=1024,
            progress=told.append, threads=1,
        )
        self.assertTrue(result.complete)
        self.assertEqual(result.favourite.gpus, 8)
        self.assertEqual(len(result.best), 10)
        times = [layout.step_time_s for layout in result.best]
        self.assertEqual(times, sorted(times))
        self.assertEqual(result.to_dict()["best"][0]["step_time_s"], times[0])
        self.assertLessEqual(told[-1]["decided"], told[-1]["layouts"])

    def test_ctrl_c_ends_a_search(self):
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            stepcast.search("scenarios/search/llama-405b-16384-h100.yaml")
        timer.join()


class Sweeps(unittest.TestCase):
    def test_a_grid(self):
        told = []
        sweep = stepcast.sweep(
            GPT,
            {"layout.micro_batch": [1, 2], "cluster.change.node.nvlink.rate": "x1,x2"},
            progress=lambda done, points: told.append((done, points)),
        )
        self.assertEqual(len(sweep), 4)
        self.assertEqual(sweep.points[0]["values"], ["1", "x1"])
        self.assertEqual(told[-1], (4, 4))
        self.assertIn("<svg", sweep.to_svg())

    def test_a_budget(self):
        answer = stepcast.budget(LLAMA, {"budget.tokens": 1e12})
        self.assertIsInstance(answer, dict)


if __name__ == "__main__":
    unittest.main()
