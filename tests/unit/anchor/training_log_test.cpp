// Logs of training jobs, a line or two of each writer.
#include "sim/anchor/training_log.hpp"

#include <fstream>

#include "sim/base/input_error.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

using namespace sim;

namespace {

std::string saved(const std::string& text) {
  std::string path = test::temporary_path("training.log").string();
  std::ofstream{path, std::ios::binary} << text;
  return path;
}

TrainingLog read(const std::string& text) {
  return read_training_log(saved(text));
}

std::string megatron(double milliseconds) {
  return "[2026-01-01 00:00:00] iteration       10/     100 | consumed samples:  2560 | elapsed "
         "time "
         "per iteration (ms): " +
         std::to_string(milliseconds) + " | throughput per GPU (TFLOP/s/GPU): 412.3 |\n";
}

}  // namespace

TEST_CASE("The times of steps are read from the logs of six writers", "[anchor]") {
  CHECK(read("hello\n" + megatron(6432.5)).values == std::vector<double>{6.4325});
  CHECK(read(megatron(1)).writer == "Megatron-LM");
  const TrainingLog titan = read(
      "[titan] - INFO - \x1b[31mstep: 10\x1b[32m  loss:  4.2  \x1b[34mtps: 5,762\x1b[39m  mfu: "
      "34%\n[titan] - INFO - step: 20  loss:  4.1  tps: 5,800  mfu: 34%\n");
  CHECK(titan.writer == "torchtitan");
  CHECK(titan.token_rate);
  CHECK(titan.values == std::vector<double>{5762, 5800});
  CHECK(read("Epoch 0: 3% | v_num=0, train_step_timing in s=6.430, global_step=3\n").values ==
        std::vector<double>{6.43});
  CHECK(read("Step Time : 6.43s GPU utilization: 400.1TFLOP/s/GPU\n").values ==
        std::vector<double>{6.43});
  CHECK(read("steps: 10 loss: 3.2 iter time (s): 1.234 samples/sec: 51.2\n").values ==
        std::vector<double>{1.234});
  CHECK(read("{\"stepcast_watch\": 1, \"warm_up\": 10}\n{\"event\": \"forecast\", \"forecast_s\": "
             "9.5}\n"
             "{\"step\": 1, \"step_time_s\": 6.25}\n")
            .values == std::vector<double>{6.25});
}

TEST_CASE("One writer's lines count, and lines without a number do not", "[anchor]") {
  const TrainingLog log =
      read(megatron(2000) + "iter time (s): 9\n" +
           "iteration 3 | elapsed time per iteration (ms): nan |\n" +
           "iteration 4 | elapsed time per iteration (ms): -5 |\n" + megatron(4000));
  CHECK(log.values == std::vector<double>{2, 4});
}

TEST_CASE("A log without a step is refused, with what is known", "[anchor]") {
  for (const std::string text : {"", "loss 3\n", "tps: 5\n"}) {
    try {
      read(text);
      FAIL("was read");
    } catch (const InputError& error) {
      CHECK(std::string{error.what()}.find("torchtitan (\"tps:\")") != std::string::npos);
    }
  }
  CHECK_THROWS_AS(read_training_log("/no/such/file"), InputError);
}

TEST_CASE("The warm-up is left out, and the median counts", "[anchor]") {
  TrainingLog log{.writer = "Megatron-LM", .token_rate = false, .values = {90, 80, 1, 3, 2, 50}};
  const LoggedStep step = logged_step(log, 0);
  CHECK(step.left_out == 2);
  CHECK(step.steps == 4);
  CHECK(to_seconds(step.median) == Approx(2.5));
  CHECK(to_seconds(step.least_tenth) == Approx(1.3));
  CHECK(to_seconds(step.most_tenth) == Approx(35.9));
  log.values = {7};
  CHECK(to_seconds(logged_step(log, 0).median) == Approx(7));
  log.values.assign(50, 1.0);
  CHECK(logged_step(log, 0).left_out == 5);
  log = {.writer = "torchtitan", .token_rate = true, .values = {1, 500, 500}};
  CHECK(to_seconds(logged_step(log, 1000).median) == Approx(2));
  log.values = {1, 1, 100, 400, 500};
  CHECK(logged_step(log, 1000).least_tenth < logged_step(log, 1000).most_tenth);
}

TEST_CASE("A line without an end is read in pieces", "[anchor]") {
  const std::string noise(200'000, 'x');
  CHECK(read(noise + "\n" + megatron(1000)).values == std::vector<double>{1});
}
