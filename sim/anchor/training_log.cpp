#include "sim/anchor/training_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fstream>
#include <optional>
#include <string_view>

#include "sim/base/check.hpp"
#include "sim/base/input_error.hpp"
#include "sim/scores/score.hpp"

namespace sim {
namespace {

struct Form {
  std::string_view writer, marker;
  std::string_view beside;  // what the line has in front of it, too
  double unit;              // of a value: seconds; 0: tokens per second and GPU
};
constexpr std::array forms{
    Form{"Megatron-LM", "elapsed time per iteration (ms):", "iteration", 1e-3},
    Form{"torchtitan", " tps:", "step:", 0},
    Form{"torchtitan", " wps:", "step:", 0},
    Form{"NeMo", "train_step_timing in s", "", 1},
    Form{"Megatron Bridge", "Step Time :", "", 1},
    Form{"DeepSpeed", "iter time (s):", "", 1},
    Form{"stepcast.watch", "\"step_time_s\":", "\"step\":", 1}};

// Colours of a terminal: ESC [ ... m.
std::string without_colours(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      text += line[i];
      continue;
    }
    while (i + 1 < line.size() && line[i] != 'm')
      ++i;
  }
  return text;
}

// "5,762" is 5762. Nothing where there is no number above zero.
std::optional<double> number_at(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" =:");
  if (first == std::string_view::npos) return std::nullopt;
  std::string digits;
  for (const char c : text.substr(first)) {
    if (c == ',') continue;
    if (std::string_view{"0123456789.eE+-"}.find(c) == std::string_view::npos) break;
    digits += c;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  static_cast<void>(end);
  if (error != std::errc{} || !std::isfinite(value) || value <= 0) return std::nullopt;
  return value;
}

std::optional<double> value_of(const Form& form, std::string_view line) {
  const std::size_t at = line.find(form.marker);
  if (at == std::string_view::npos ||
      line.substr(0, at).find(form.beside) == std::string_view::npos)
    return std::nullopt;
  const std::optional<double> number = number_at(line.substr(at + form.marker.size()));
  if (!number) return std::nullopt;
  return form.unit > 0 ? *number * form.unit : *number;
}

// A line at a time, and what is longer in pieces: a file need not be a log.
constexpr std::size_t most_line = 1 << 16;

template <class Visit>
void each_line(const std::string& path, Visit visit) {
  std::ifstream in{path, std::ios::binary};
  if (!in) throw InputError{SourcePosition{path, 0, 0}, "cannot be opened"};
  std::string line(most_line, '\0');
  while (in.good()) {
    in.getline(line.data(), static_cast<std::streamsize>(line.size()));
    const auto length = static_cast<std::size_t>(in.gcount());
    if (in.fail() && !in.eof() && length > 0) in.clear();
    visit(std::string_view{line.data(), length});
  }
}

std::string known_writers() {
  std::string text;
  for (const Form& form : forms)
    text += fmt::format("{}{} (\"{}\")", text.empty() ? "" : ", ", form.writer,
                        form.marker.substr(form.marker.find_first_not_of(' ')));
  return text;
}

}  // namespace

TrainingLog read_training_log(const std::string& path) {
  TrainingLog log;
  const Form* chosen = nullptr;
  each_line(path, [&](std::string_view raw) {
    const std::string line = without_colours(raw);
    for (const Form& form : forms) {
      if (chosen != nullptr && chosen != &form) continue;
      if (const std::optional<double> value = value_of(form, line)) {
        chosen = &form;
        log.values.push_back(*value);
        return;
      }
    }
  });
  if (chosen == nullptr)
    throw InputError{SourcePosition{path, 0, 0},
                     "no line has the time of a step; known are logs of " + known_writers()};
  log.writer = chosen->writer;
  log.token_rate = chosen->unit <= 0;
  return log;
}

LoggedStep logged_step(const TrainingLog& log, double tokens_per_gpu) {
  constexpr std::size_t few = 5;
  const std::size_t count = log.values.size();
  SIM_CHECK(count > 0, log.writer);
  const std::size_t warm_up =
      count < few ? std::min<std::size_t>(1, count - 1) : std::max<std::size_t>(2, count / 10);
  const std::vector<double> rest{log.values.begin() + static_cast<std::ptrdiff_t>(warm_up),
                                 log.values.end()};
  const auto seconds_at = [&](double share) {
    return log.token_rate ? tokens_per_gpu / quantile(rest, 1 - share) : quantile(rest, share);
  };
  constexpr double longest = 1e6;
  const double seconds = seconds_at(0.5);
  if (!(seconds < longest))
    throw InputError{SourcePosition{"the log of " + log.writer, 0, 0},
                     fmt::format("its median step takes {:g} s; allowed: up to 1e6 s", seconds)};
  return {.median = duration_from_seconds(seconds),
          .least_tenth = duration_from_seconds(seconds_at(0.1)),
          .most_tenth = duration_from_seconds(std::min(seconds_at(0.9), longest)),
          .steps = static_cast<int>(rest.size()),
          .left_out = static_cast<int>(warm_up)};
}

}  // namespace sim
