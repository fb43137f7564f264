#include "sim/scores/mlperf/round_logs.hpp"

#include <nlohmann/json.hpp>

#include "sim/scores/score.hpp"

namespace sim {
namespace {

double number_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return 0;
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

void add_positive(double value, std::vector<double>& values) {
  if (value > 0) values.push_back(value);
}

}  // namespace

void LogLines::add(std::string_view text) {
  constexpr std::string_view mark = ":::MLLOG ";
  loss_ms_ = 0;
  for (std::size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, at)) {
    at += mark.size();
    add_line(text.substr(at, text.find('\n', at) - at));
  }
}

void LogLines::add_line(std::string_view json) {
  const auto line = nlohmann::json::parse(json, nullptr, false);
  if (!line.is_object() || !line.contains("key") || !line["key"].is_string()) return;
  const std::string key = line["key"].get<std::string>();
  const nlohmann::json value = line.value("value", nlohmann::json{});
  if (key == "global_batch_size")
    global_batch_ = static_cast<std::int64_t>(number_at(line, "value"));
  if (key.starts_with("eval_")) loss_ms_ = 0;
  if (key == "tracked_stats") {
    add_positive(number_at(value, "train_step_time"), step_times_);
    add_positive(number_at(value, "train_step_timing in s"), step_times_);  // v4.1
    add_positive(number_at(value, "throughput"), throughputs_);
  }
  if (key != "train_loss" && number_at(value, "train_loss") == 0) return;
  const double ms = number_at(line, "time_ms");
  const double samples = number_at(line.value("metadata", nlohmann::json{}), "samples_count");
  if (loss_ms_ > 0 && samples > loss_samples_)
    add_positive((ms - loss_ms_) / 1000 / (samples - loss_samples_), sample_times_);
  loss_ms_ = ms;
  loss_samples_ = samples;
}

LoggedRun LogLines::run() const {
  LoggedRun run{.global_batch = global_batch_};
  const auto batch = static_cast<double>(global_batch_);
  if (!step_times_.empty()) {
    run.step_s = quantile(step_times_, 0.5);
    run.from = "step times";
    run.values = step_times_.size();
  } else if (batch > 0 && !throughputs_.empty()) {
    run.step_s = batch / quantile(throughputs_, 0.5);
    run.from = "throughput";
    run.values = throughputs_.size();
  } else if (batch > 0 && !sample_times_.empty()) {
    run.step_s = batch * quantile(sample_times_, 0.5);
    run.from = "lines of the loss";
    run.values = sample_times_.size();
  }
  return run;
}

}  // namespace sim
