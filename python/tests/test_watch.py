"""The watch over a training loop. No test looks at how long a step took: times are given."""

import io
import json
import os
import sys
import tempfile
import types
import unittest
from unittest import mock

import stepcast
from stepcast._step_times import StepTimes, duration, findings, verdict

GPT = "scenarios/gpt2-124m-8-h100.yaml"


def watched(steps, *arguments, **options):
    """A Watch over a loop that is over, and what it said."""
    said = []
    with stepcast.watch(*arguments, say=said.append, **options) as watch:
        for _ in range(steps):
            watch.step()
    return watch, said


class FakeForecast:
    step_time_s = 1.0

    def to_dict(self):
        return {"step_time_s_low": 0.9, "step_time_s_high": 1.1, "interval": {"share": 0.9}}


class Times(unittest.TestCase):
    def test_a_step_within_the_interval_is_said_and_no_cause(self):
        text = verdict([1.04] * 20, FakeForecast())
        self.assertIn("1.04 x the forecast (1 s; 90% of such runs: 900 ms to 1.1 s)", text)
        self.assertNotIn("look for", text)

    def test_a_slow_step_names_what_the_times_show(self):
        self.assertIn("1.31 x the forecast", verdict([1.31] * 20, FakeForecast()))
        self.assertIn("look for: all steps are alike", verdict([1.31] * 20, FakeForecast()))
        self.assertIn("stepcast explain", verdict([1.31] * 20, FakeForecast()))
        every_fifth = [4.0 if i % 5 == 4 else 1.31 for i in range(20)]
        self.assertIn("4 of 20 steps take more than 1.5 x the median, one in 5: checkpoints",
                      verdict(every_fifth, FakeForecast()))

    def test_findings(self):
        self.assertEqual(findings([1.0] * 30), [])
        self.assertEqual(findings([1.0] * 5), [])
        drifting = findings([1.0 + 0.01 * i for i in range(30)])
        self.assertTrue(any("the last third takes 19% more" in text for text in drifting), drifting)
        varying = findings([1.0, 1.3] * 15)
        self.assertEqual(len(varying), 1)
        self.assertIn("steps vary from 1 s to 1.3 s", varying[0])
        odd = [1.0] * 30
        odd[3] = odd[4] = odd[20] = 2.0
        self.assertIn("3 of 30 steps take more than 1.5 x the median: data loading", findings(odd)[0])

    def test_drift_from_the_first_window_is_said_once_and_its_end(self):
        times = StepTimes(warm_up=2, window=4)
        said = [times.add(value) for value in [9.0] * 2 + [1.0] * 4 + [1.2] * 8 + [1.0] * 4]
        self.assertEqual([text for text in said if text], [
            "steps 7 to 10 take 1.2 s, 20% more than the first ones (1 s); trace some steps, and ask: "
            "stepcast explain TRACES --scenario FILE",
            "steps 15 to 18 take 1 s, again as the first ones (1 s)"])

    def test_the_scatter_of_the_first_window_is_no_drift(self):
        times = StepTimes(warm_up=0, window=4)
        self.assertFalse([text for text in map(times.add, [1.0, 1.4, 0.8, 1.2] + [1.25] * 4) if text])

    def test_a_clock_that_stands_still(self):
        times = StepTimes(warm_up=0, window=4)
        self.assertEqual([times.add(0.0) for _ in range(12)], [None] * 12)
        self.assertEqual(findings(times.measured), [])

    def test_units(self):
        self.assertEqual([duration(value) for value in (6.4321, 0.5123, 2.5e-5)],
                         ["6.432 s", "512.3 ms", "25 us"])


class Watching(unittest.TestCase):
    def test_the_forecast_and_the_verdict_once(self):
        watch, said = watched(40, GPT, warm_up=5, window=10)
        self.assertEqual(watch.forecast.step_time_ps, stepcast.forecast(GPT).step_time_ps)
        self.assertEqual(len([text for text in said if "x the forecast" in text]), 1, said)
        told = watch.summary()
        self.assertEqual(told["steps"], 35)
        self.assertEqual(told["ratio"], told["median_s"] / told["forecast_s"])

    def test_a_wrong_scenario_is_said_once_and_the_loop_goes_on(self):
        watch, said = watched(30, "no-such-file.yaml", warm_up=1, window=5)
        self.assertEqual(len([text for text in said if "no-such-file.yaml" in text]), 1, said)
        self.assertEqual(watch.summary()["steps"], 29)
        self.assertIsNone(watch.summary()["ratio"])

    def test_nothing_is_raised_into_the_job(self):
        def refuse(text):
            raise LookupError(text)

        with stepcast.watch(object(), log="/no/such/folder/steps", say=refuse, warm_up=0) as watch:
            for _ in range(30):
                watch.step()
        self.assertIsNone(watch.forecast)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs a file that is full")
    def test_a_full_disk_is_said_once_and_the_steps_go_on(self):
        watch, said = watched(30, log="/dev/full", warm_up=0, window=10)
        self.assertEqual(len([text for text in said if "No space left" in text]), 1, said)
        self.assertEqual(watch.summary()["steps"], 30)

    def test_the_log_has_every_step_and_anchor_reads_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "steps.jsonl")
            watched(25, GPT, log=path, warm_up=5, window=10)
            with open(path) as file:
                entries = [json.loads(line) for line in file]
        self.assertEqual(entries[0]["stepcast_watch"], 1)
        steps = [entry for entry in entries if "step" in entry]
        self.assertEqual([entry["step"] for entry in steps], list(range(1, 26)))
        self.assertTrue(all(entry["step_time_s"] >= 0 for entry in steps))
        self.assertEqual({entry["event"] for entry in entries if "event" in entry} - {"drift"},
                         {"forecast", "verdict"})

    def test_one_rank_watches(self):
        with mock.patch.dict(os.environ, {"RANK": "3"}):
            watch, said = watched(30, GPT)
        self.assertEqual((said, watch.times.steps), ([], 0))

    def test_around_a_function_of_a_framework(self):
        said = []
        watch = stepcast.watch(say=said.append, warm_up=0, window=2)
        train_step = watch.around(lambda batch, scale: batch * scale)
        self.assertEqual([train_step(i, scale=2) for i in range(4)], [0, 2, 4, 6])
        watch.close()
        self.assertEqual(watch.times.steps, 4)

    def test_the_standard_error_by_default(self):
        with mock.patch.object(sys, "stderr", io.StringIO()) as err:
            with stepcast.watch(warm_up=0, window=2) as watch:
                watch.step()
                watch.step()
        self.assertIn("stepcast: step ", err.getvalue())

    def test_megatrons_arguments_with_their_cluster(self):
        from test_live_objects import megatron_arguments

        watch, said = watched(3, megatron_arguments(), cluster="dgx-h100", warm_up=0)
        self.assertGreater(watch.forecast.step_time_s, 0, said)


class Callbacks(unittest.TestCase):
    """transformers itself is not needed: the callback asks for its base class alone."""

    def test_a_trainer_calls_it(self):
        fake = types.ModuleType("transformers")
        fake.TrainerCallback = type("TrainerCallback", (), {})
        said = []
        with mock.patch.dict(sys.modules, {"transformers": fake}):
            callback = stepcast.trainer_callback(GPT, say=said.append, warm_up=1, window=4)
        self.assertIsInstance(callback, fake.TrainerCallback)
        state = types.SimpleNamespace(is_world_process_zero=True)
        callback.on_train_begin(None, state, None, model=None)
        for _ in range(10):
            callback.on_step_end(None, state, None)
        callback.on_train_end(None, state, None)
        self.assertEqual(callback.watch.times.steps, 10)
        self.assertEqual(len([text for text in said if "x the forecast" in text]), 1, said)


class RealLoop(unittest.TestCase):
    def test_a_loop_of_pytorch_on_the_cpu(self):
        try:
            import torch
        except ImportError:
            self.skipTest("no torch")
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
        optimizer = torch.optim.AdamW(model.parameters())
        data = torch.utils.data.TensorDataset(torch.randn(256, 32), torch.randint(8, (256,)))
        said = []
        with stepcast.watch(GPT, say=said.append, warm_up=2, window=8) as watch:
            for inputs, wanted in torch.utils.data.DataLoader(data, batch_size=8):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(inputs), wanted).backward()
                optimizer.step()
                watch.step()
        self.assertEqual(watch.times.steps, 32)
        self.assertTrue(any("x the forecast" in text for text in said), said)


if __name__ == "__main__":
    unittest.main()
