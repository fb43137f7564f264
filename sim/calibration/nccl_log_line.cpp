#include "sim/calibration/nccl_log_line.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace sim {
namespace {

bool digit(char c) {
  return c >= '0' && c <= '9';
}
bool letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
bool blank(char c) {
  return c == ' ' || c == '\t';
}

std::string without_terminal_codes(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~'))
        ++i;
    } else if (line[i] != '\r') {
      text += line[i];
    }
  }
  return text;
}

// Types of nccl-tests (src/common.cu, test_typenames) and of its first versions.
constexpr std::array<std::string_view, 16> type_names{
    "int8",   "uint8",    "int32",  "uint32", "int64",    "uint64",   "half", "float",
    "double", "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2", "char", "int"};

bool whole_number(std::string_view word) {
  return !word.empty() && word.size() <= 18 && std::all_of(word.begin(), word.end(), digit);
}

// A column that may hold no number: the half was not run, or not checked.
bool value(std::string_view word) {
  if (word == "N/A" || word == "n/a" || word == "NA" || word == "-" || word == "nan" ||
      word == "-nan" || word == "inf")
    return true;
  if (word.ends_with('*')) word.remove_suffix(1);  // an error above the threshold
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc{} && end == word.data() + word.size();
}

// The number that a word begins with where other text is glued to it ("-1host:12:34"); empty: none.
std::string_view leading_number(std::string_view word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{}) return {};
  return word.substr(0, static_cast<std::size_t>(end - word.data()));
}

// "[1,0]<stdout>:", "[0]", "[2025-05-22 07:36:17]" become blanks.
std::string without_tags(std::string text) {
  for (std::size_t begin = text.find('['); begin != std::string::npos;
       begin = text.find('[', begin)) {
    std::size_t end = text.find(']', begin);
    if (end == std::string::npos) break;
    if (text.compare(end + 1, 4, "<std") == 0) {
      const std::size_t colon = text.find(">:", end);
      if (colon != std::string::npos) end = colon + 1;
    }
    std::fill(text.begin() + static_cast<std::ptrdiff_t>(begin),
              text.begin() + static_cast<std::ptrdiff_t>(end) + 1, ' ');
    begin = end;
  }
  return text;
}

// The text behind the last separator of a label: "0:1048576" is 1048576.
std::string_view after_label(std::string_view word) {
  const std::size_t at = word.find_last_of(":>|");
  return at == std::string_view::npos ? word : word.substr(at + 1);
}

// "12:", "pod:", "|", "2025-05-22T07:36:17Z": what a launcher writes before a line.
bool label(std::string_view word) {
  return word.ends_with(':') || word.ends_with('|') || word.ends_with('>') ||
         (digit(word.front()) && word.find_first_of(":-") != std::string_view::npos);
}

// Where the row begins among the words; words.size(): nowhere.
std::size_t row_start(const std::vector<std::string_view>& words, const LogColumns& columns) {
  if (!columns.typed) return !words.empty() && whole_number(words.front()) ? 0 : words.size();
  for (std::size_t i = 2; i < words.size(); ++i)
    if (std::find(type_names.begin(), type_names.end(), words[i]) != type_names.end() &&
        whole_number(words[i - 1]) && whole_number(after_label(words[i - 2])))
      return i - 2;
  const bool unknown_type = words.size() > 3 && whole_number(words[0]) && whole_number(words[1]) &&
                            letter(words[2].front());
  return unknown_type ? 0 : words.size();
}

// The start of NCCL's message whose "NCCL" is at `at`: its HOST:PID:TID, and a time stamp before.
std::size_t message_start(std::string_view text, std::size_t at) {
  const auto skip_blanks = [&](std::size_t i) {
    while (i > 0 && blank(text[i - 1]))
      --i;
    return i;
  };
  const auto skip_brackets = [&](std::size_t i) {
    if (i == 0 || text[i - 1] != ']') return i;
    const std::size_t open = text.rfind('[', i - 1);
    return open == std::string_view::npos ? i : open;
  };
  std::size_t i = skip_brackets(skip_blanks(at));  // [device]
  i = skip_blanks(i);
  std::size_t word = i;
  while (word > 0 && !blank(text[word - 1]) && text[word - 1] != ']')
    --word;
  return word;
}

}  // namespace

std::vector<std::string_view> words_in(std::string_view line) {
  std::vector<std::string_view> words;
  std::size_t at = 0;
  while (true) {
    at = line.find_first_not_of(" \t", at);
    if (at == std::string_view::npos) return words;
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
}

std::optional<double> number_in(std::string_view text) {
  if (text.ends_with('*')) text.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value))
    return std::nullopt;
  return value;
}

LogLine log_line(std::string_view raw) {
  LogLine line{.text = without_terminal_codes(raw)};
  static constexpr std::array<std::string_view, 5> levels{" NCCL INFO", " NCCL WARN", " NCCL TRACE",
                                                          " NCCL CALL", " NCCL ABORT"};
  std::size_t at = std::string::npos;
  for (const std::string_view level : levels)
    at = std::min(at, line.text.find(level));
  if (at == std::string::npos) return line;
  line.cut = true;
  const std::size_t start = message_start(line.text, at);
  // "-1host:12:34 [0] NCCL INFO": the -1 belongs to a row, if one stands before it.
  const std::string_view message{line.text.data() + start, at - start};
  const bool row_before = !words_in(std::string_view{line.text}.substr(0, start)).empty();
  line.text.resize(start + (row_before ? leading_number(message).size() : 0));
  return line;
}

std::optional<LogColumns> log_columns(std::string_view line) {
  std::vector<std::string_view> words = words_in(line);
  const auto size = std::find_if(words.begin(), words.end(), [](std::string_view word) {
    return word == "size" || word.ends_with("#size");
  });
  words.erase(words.begin(), size);
  while (!words.empty() && (words.back() == "timestamp" || words.back() == "time_stamp"))
    words.pop_back();
  LogColumns columns{.all = words.size()};
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "type") columns.typed = i == 2;
    if (words[i] == "redop") columns.redop = i == 3;
    if (words[i] == "error") columns.error_column = true;
    if (words[i] == "time") columns.times.push_back(i);
    if (words[i] == "algbw") columns.algs.push_back(i);
    if (words[i] == "busbw") columns.buses.push_back(i);
    if (words[i] == "#wrong") columns.wrongs.push_back(i);
  }
  if (columns.times.empty() || columns.algs.size() != columns.times.size() ||
      columns.buses.size() != columns.times.size())
    return std::nullopt;
  columns.half = (columns.all - columns.times.front()) / columns.times.size();
  return columns;
}

RowPiece row_piece(const std::string& text, const LogColumns& columns) {
  const std::string plain = without_tags(text);
  const std::vector<std::string_view> words = words_in(plain);
  const std::size_t start = row_start(words, columns);
  RowPiece piece;
  const std::size_t labels = columns.typed ? (columns.redop ? 4 : 3) : 0;
  for (std::size_t i = start; i < words.size(); ++i) {
    if (piece.words.size() == columns.all) return piece;
    const std::string_view word = i == start ? after_label(words[i]) : words[i];
    const std::size_t column = i - start;
    if ((column >= 2 && column < labels) || value(word)) {
      piece.words.emplace_back(word);
      continue;
    }
    if (const std::string_view number = leading_number(word); !number.empty())
      piece.words.emplace_back(number);
    piece.ended = false;
    break;
  }
  return piece;
}

RowPiece rest_of_row(const std::string& text) {
  const std::string plain = without_tags(text);
  const std::vector<std::string_view> words = words_in(plain);
  std::size_t start = words.size();
  while (start > 0 && value(words[start - 1]))
    --start;
  RowPiece piece;
  if (!std::all_of(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(start), label))
    return piece;
  for (std::size_t i = start; i < words.size(); ++i)
    piece.words.emplace_back(words[i]);
  return piece;
}

std::string without_labels(const std::string& text) {
  const std::string plain = without_tags(text);
  for (const std::string_view word : words_in(plain))
    if (!label(word)) return plain.substr(static_cast<std::size_t>(word.data() - plain.data()));
  return {};
}

std::string_view comment_of(std::string_view line, std::string_view words, bool bare) {
  for (std::size_t at = line.find(words); at != std::string_view::npos;
       at = line.find(words, at + 1)) {
    std::string_view before = line.substr(0, at);
    while (!before.empty() && blank(before.back()))
      before.remove_suffix(1);
    if (before.ends_with('#') || (bare && before.empty())) return line.substr(at);
  }
  return {};
}

}  // namespace sim
