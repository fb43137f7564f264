#include "sim/layout/sequence_lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/config/input_log.hpp"
#include "sim/layout/layout_fields.hpp"

namespace sim {
namespace {

constexpr std::int64_t most_counted_sequences = 1'000'000'000'000;
constexpr std::size_t most_problems = 20;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\"";
  const std::size_t begin = text.find_first_not_of(blank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class LengthReader {
 public:
  explicit LengthReader(const std::string& path) : path_{path} {}

  std::vector<LengthCount> read() {
    const std::string text = read_input(path_);
    for (std::size_t at = 0; at < text.size() && problems_.size() < most_problems;) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      read_line(std::string_view{text}.substr(at, end - at));
      at = end + 1;
    }
    if (counts_.empty() && problems_.empty())
      throw InputError{{path_, 0, 0}, "the file has no length; wanted: one in each line"};
    if (!problems_.empty()) throw InputError{std::move(problems_)};
    std::vector<LengthCount> lengths;
    for (const auto& [length, count] : counts_)
      lengths.push_back({length, count});
    return lengths;
  }

 private:
  void read_line(std::string_view line) {
    ++line_;
    const std::string_view text = trimmed(line.substr(0, line.find('#')));
    if (text.empty()) return;
    const std::size_t comma = text.find(',');
    const std::string_view first = trimmed(text.substr(0, comma));
    const std::optional<std::int64_t> length = whole_number(first);
    if (!length && !has_values_ && first.find_first_of("0123456789") != 0) {
      has_values_ = true;  // words: what the columns are called
      return;
    }
    has_values_ = true;
    std::optional<std::int64_t> count{1};
    if (comma != std::string_view::npos) count = whole_number(trimmed(text.substr(comma + 1)));
    if (!length || *length < 1 || *length > layout_limits::tokens)
      return problem(line, fmt::format("'{}' is no length; allowed: whole numbers from 1 to {}",
                                       first.substr(0, 40), layout_limits::tokens));
    if (!count || *count < 0 || *count > most_counted_sequences)
      return problem(
          line, fmt::format("'{}' is no count; allowed: whole numbers from 0 to {}",
                            trimmed(text.substr(comma + 1)).substr(0, 40), most_counted_sequences));
    if (sequences_ + *count > most_counted_sequences)
      return problem(line, fmt::format("more than {} sequences", most_counted_sequences));
    sequences_ += *count;
    if (*count > 0) counts_[*length] += *count;
  }

  void problem(std::string_view line, std::string what) {
    Problem& made = problems_.emplace_back();
    made.where = {path_, line_, 1};
    made.what = std::move(what);
    made.source_line = line.substr(0, 200);
  }

  std::string path_;
  int line_ = 0;
  bool has_values_ = false;
  std::int64_t sequences_ = 0;
  std::map<std::int64_t, std::int64_t> counts_;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<LengthCount> read_lengths(const std::string& path) {
  return LengthReader{path}.read();
}

}  // namespace sim
