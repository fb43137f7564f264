#include "sim/rows/csv.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>

#include "sim/base/near_names.hpp"
#include "sim/config/text_check.hpp"

namespace sim {
namespace {

constexpr std::size_t most_bytes = std::size_t{16} << 20;
constexpr std::size_t most_records = 200'000;

class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name) : text_{text}, name_{name} {}

  bool at_end() const { return at_ == text_.size(); }
  void skip_empty_lines() {
    while (!at_end() && line_end() > 0)
      take_line_end();
  }

  // Throws InputError where the grammar is broken: what follows cannot be told apart.
  std::vector<CsvField> record() {
    std::vector<CsvField> fields;
    if (!at_end() && line_end() > 0) fail("the line is empty");
    while (true) {
      fields.push_back(field());
      if (at_end()) return fields;
      if (text_[at_] == ',') {
        step();
        continue;
      }
      take_line_end();
      return fields;
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InputError{SourcePosition{name_, line_, column()}, what};
  }
  int column() const { return static_cast<int>(at_ - line_start_) + 1; }
  void step() { ++at_; }

  // Length of the line end here: LF or CR LF, else 0.
  std::size_t line_end() const {
    if (text_[at_] == '\n') return 1;
    return text_.substr(at_, 2) == "\r\n" ? 2 : 0;
  }
  void take_line_end() {
    const std::size_t length = line_end();
    if (length == 0) fail("a carriage return stands alone");
    at_ += length;
    ++line_;
    line_start_ = at_;
  }

  CsvField field() {
    CsvField field{.text = {}, .line = line_, .column = column()};
    if (!at_end() && text_[at_] == '"') {
      quoted(field);
      return field;
    }
    while (!at_end() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
      if (text_[at_] == '"')
        fail("a quote inside a field that does not begin with one; quote the field and double it");
      field.text += text_[at_];
      step();
    }
    return field;
  }

  void quoted(CsvField& field) {
    step();
    while (true) {
      if (at_end())
        throw InputError{SourcePosition{name_, field.line, field.column},
                         "the quote is never closed"};
      const char c = text_[at_];
      if (c == '"') {
        step();
        if (at_end() || text_[at_] != '"') break;
      } else if (c == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      }
      field.text += c;
      step();
    }
    if (!at_end() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r')
      fail("text behind the closing quote");
  }

  std::string_view text_;
  const std::string& name_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

void check_text(std::string_view text, const std::string& name) {
  if (text.size() > most_bytes)
    throw InputError{SourcePosition{name, 0, 0}, "is larger than 16 MiB"};
  if (const std::optional<BadByte> bad = find_bad_byte(text)) {
    const auto line =
        1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad->offset), '\n');
    throw InputError{SourcePosition{name, static_cast<int>(line), 0}, bad->problem};
  }
  if (text.empty()) throw InputError{SourcePosition{name, 0, 0}, "is empty"};
}

std::vector<Problem> header_problems(const std::vector<CsvField>& header, const std::string& name) {
  std::vector<Problem> problems;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const SourcePosition where{name, header[i].line, header[i].column};
    const auto same = [&](const CsvField& other) { return other.text == header[i].text; };
    if (header[i].text.empty())
      problems.push_back({where, fmt::format("column {} has no name", i + 1), {}});
    else if (std::any_of(header.begin(), header.begin() + static_cast<std::ptrdiff_t>(i), same))
      problems.push_back({where, fmt::format("two columns are named '{}'", header[i].text), {}});
    if (problems.size() == most_table_problems) break;
  }
  return problems;
}

}  // namespace

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string{text};
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

CsvTable CsvTable::load(const std::string& path, Misfits misfits) {
  std::ifstream in{path, std::ios::binary};
  if (!in) throw InputError{SourcePosition{path, 0, 0}, "cannot be opened"};
  const std::string text{std::istreambuf_iterator<char>{in}, {}};
  if (in.bad()) throw InputError{SourcePosition{path, 0, 0}, "cannot be read"};
  return parse(text, path, misfits);
}

CsvTable CsvTable::parse(std::string_view text, std::string name, Misfits misfits) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  check_text(text, name);
  CsvTable table;
  table.name_ = std::move(name);
  Scanner scanner{text, table.name_};
  table.header_ = scanner.record();
  std::vector<Problem> problems = header_problems(table.header_, table.name_);
  const bool tolerant = misfits == Misfits::set_aside;
  if (tolerant) scanner.skip_empty_lines();
  while (!scanner.at_end() && problems.size() < most_table_problems) {
    std::vector<CsvField> record = scanner.record();
    if (table.records_.size() + table.misfits_.size() == most_records)
      throw InputError{SourcePosition{table.name_, record.front().line, 0},
                       fmt::format("more than {} records", most_records)};
    if (record.size() == table.header_.size()) {
      table.records_.push_back(std::move(record));
    } else {
      (tolerant ? table.misfits_ : problems)
          .push_back(
              {SourcePosition{table.name_, record.front().line, 0},
               fmt::format("has {} fields, the header has {}", record.size(), table.header_.size()),
               {}});
    }
    if (tolerant) scanner.skip_empty_lines();
  }
  if (!problems.empty()) throw InputError{std::move(problems)};
  return table;
}

void CsvTable::check_columns(std::span<const std::string_view> known,
                             std::span<const std::string_view> required) const {
  std::vector<Problem> problems;
  for (const CsvField& field : header_) {
    if (std::find(known.begin(), known.end(), field.text) != known.end()) continue;
    problems.push_back({SourcePosition{name_, field.line, field.column},
                        fmt::format("there is no column '{}'; {}", field.text,
                                    choices_text(field.text, {known.begin(), known.end()})),
                        {}});
  }
  std::vector<std::string_view> missing;
  for (const std::string_view name : required)
    if (std::none_of(header_.begin(), header_.end(),
                     [&](const CsvField& field) { return field.text == name; }))
      missing.push_back(name);
  if (missing.size() == 1)
    problems.push_back({SourcePosition{name_, 1, 1},
                        fmt::format("the column '{}' is missing", missing.front()),
                        {}});
  else if (!missing.empty())
    problems.push_back({SourcePosition{name_, 1, 1},
                        fmt::format("the columns {} are missing", fmt::join(missing, ", ")),
                        {}});
  if (!problems.empty()) throw InputError{std::move(problems)};
}

const CsvField& CsvTable::field(std::size_t record, std::string_view column) const {
  static const CsvField none;
  for (std::size_t i = 0; i < header_.size(); ++i)
    if (header_[i].text == column) return records_[record][i];
  return none;
}

}  // namespace sim
