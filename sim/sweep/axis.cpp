#include "sim/sweep/axis.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

struct Number {
  double value = 0;
  std::string_view unit;  // with the space before it
};

std::optional<Number> number_of(std::string_view text) {
  Number number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (error != std::errc{} || !std::isfinite(number.value)) return std::nullopt;
  number.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::vector<std::string> list_values(std::string_view text) {
  std::vector<std::string> values;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view value = trimmed(text.substr(0, comma));
    if (value.empty()) throw std::invalid_argument("a value is empty");
    values.emplace_back(value);
    if (comma == std::string_view::npos) return values;
    text.remove_prefix(comma + 1);
  }
}

// "FIRST..LAST*FACTOR", "FIRST..LAST+STEP" or "FIRST..LAST".
std::vector<std::string> range_values(std::string_view text, std::size_t dots) {
  if (text.find(',') != std::string_view::npos)
    throw std::invalid_argument("a list with commas or a range with .., not both");
  const std::size_t sign = text.find_first_of("*+", dots + 2);
  const std::optional<Number> first = number_of(trimmed(text.substr(0, dots)));
  const std::optional<Number> last = number_of(
      trimmed(text.substr(dots + 2, sign == std::string_view::npos ? sign : sign - dots - 2)));
  const std::optional<Number> by =
      sign == std::string_view::npos ? Number{1, {}} : number_of(trimmed(text.substr(sign + 1)));
  if (!first || !last || !by || !trimmed(by->unit).empty())
    throw std::invalid_argument("a range is 8..64*2 or 100 Gbps..400 Gbps+50");
  if (!trimmed(last->unit).empty() && trimmed(last->unit) != trimmed(first->unit))
    throw std::invalid_argument("both ends of a range have the same unit");
  const bool times = sign != std::string_view::npos && text[sign] == '*';
  if (times ? by->value <= 1 || first->value <= 0 : by->value <= 0)
    throw std::invalid_argument(times ? "a range that multiplies begins above 0, with a factor "
                                        "above 1"
                                      : "the step of a range is above 0");
  std::vector<std::string> values;
  // A last value that rounding puts beside the end of the range still belongs to it.
  const double end = last->value + std::abs(last->value) * 1e-9;
  for (std::size_t k = 0;; ++k) {
    const double count = static_cast<double>(k);
    const double value =
        times ? first->value * std::pow(by->value, count) : first->value + count * by->value;
    if (value > end) break;
    if (k == most_values)
      throw std::invalid_argument(fmt::format("a range has at most {} values", most_values));
    values.push_back(fmt::format("{:.10g}{}", value, first->unit));
  }
  if (values.empty()) throw std::invalid_argument("the range ends before it begins");
  return values;
}

}  // namespace

std::vector<std::string> axis_values(std::string_view text) {
  const std::size_t dots = text.find("..");
  std::vector<std::string> values =
      dots == std::string_view::npos ? list_values(text) : range_values(text, dots);
  if (values.size() > most_values)
    throw std::invalid_argument(fmt::format("a list has at most {} values", most_values));
  std::vector<std::string> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end())
    throw std::invalid_argument(fmt::format("the value {} is listed twice", *twice));
  return values;
}

std::vector<int> gpu_counts(const std::string& text, const std::string& where) {
  constexpr int most = 1 << 21;
  const auto read = [&](const std::string& value) {
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || number < 1 || number > most)
      throw std::invalid_argument(
          fmt::format("'{}' is no number of GPUs from 1 to {}", value, most));
    return number;
  };
  std::vector<int> counts;
  try {
    for (const std::string& value : axis_values(text))
      counts.push_back(read(value));
  } catch (const std::invalid_argument& error) {
    throw InputError{SourcePosition{where, 0, 0}, error.what()};
  }
  std::sort(counts.begin(), counts.end());
  return counts;
}

Axis parse_axis(const std::string& option) {
  const std::size_t equals = option.find('=');
  if (equals == 0 || equals == std::string::npos)
    throw InputError{SourcePosition{"--over", 0, 0},
                     fmt::format("--over {}: write it as KEY=VALUES, for example "
                                 "cluster.nodes=1,2,4 or layout.global_batch=64..512*2",
                                 option)};
  try {
    return {option.substr(0, equals), axis_values(std::string_view{option}.substr(equals + 1))};
  } catch (const std::invalid_argument& error) {
    throw InputError{SourcePosition{"--over", 0, 0},
                     fmt::format("--over {}: {}", option, error.what())};
  }
}

std::vector<Axis> read_axes(const ObjectReader& over) {
  std::vector<Axis> axes;
  for (const std::string& key : over.keys()) {
    const ValueReader value = over.at(key);
    std::string text;
    if (value.is_list()) {
      for (const ValueReader& item : value.list()) {
        const std::optional<std::string> word = item.peek_text();
        if (!word) item.problem(fmt::format("the values of {} are words or numbers", key));
        if (!text.empty()) text += ',';
        text += word.value_or("?");
      }
    } else {
      text = value.text();
    }
    try {
      axes.push_back({key, axis_values(text)});
    } catch (const std::invalid_argument& error) {
      value.problem(fmt::format("{}: {}", key, error.what()));
    }
  }
  return axes;
}

std::uint64_t point_count(const std::vector<Axis>& axes) {
  std::uint64_t points = 1;
  for (const Axis& axis : axes)
    points = std::min(points * axis.values.size(), most_points + 1);
  return points;
}

std::vector<std::string> values_at(const std::vector<Axis>& axes, std::uint64_t point) {
  std::vector<std::string> values(axes.size());
  for (std::size_t i = axes.size(); i-- > 0;) {
    values[i] = axes[i].values[point % axes[i].values.size()];
    point /= axes[i].values.size();
  }
  return values;
}

std::vector<std::string> assignments(const std::vector<Axis>& axes, std::uint64_t point) {
  std::vector<std::string> all = values_at(axes, point);
  for (std::size_t i = 0; i < axes.size(); ++i)
    all[i] = fmt::format("{}={}", axes[i].key, all[i]);
  return all;
}

}  // namespace sim
