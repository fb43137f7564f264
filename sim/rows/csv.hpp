// Tables of comma-separated values, read strictly (RFC 4180): a header of different names, and in
// every record as many fields as in the header. A field in double quotes may hold commas, line
// breaks and, doubled, quotes. Refused: a quote inside an unquoted field, text behind a closing
// quote, empty lines, text that is not UTF-8, more than 16 MiB or 200,000 records.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/input_error.hpp"

namespace sim {

inline constexpr std::size_t most_table_problems = 20;  // that one error lists

// `text` as a field: in quotes where it holds a comma, a quote or a line end.
std::string csv_cell(std::string_view text);

struct CsvField {
  std::string text;
  int line = 0;    // 1-based
  int column = 0;  // 1-based, in bytes
};

// A record with another number of fields than the header has, and an empty line. set_aside: they
// are left out and listed (misfits), empty lines passed over.
enum class Misfits : std::uint8_t { refuse, set_aside };

class CsvTable {
 public:
  // Both throw InputError with every malformed record of the file, up to 20.
  static CsvTable load(const std::string& path, Misfits misfits = Misfits::refuse);
  static CsvTable parse(std::string_view text, std::string name, Misfits misfits = Misfits::refuse);

  const std::string& name() const { return name_; }
  // Throws InputError unless the columns are some of `known`, with all of `required` among them.
  void check_columns(std::span<const std::string_view> known,
                     std::span<const std::string_view> required) const;
  // The field in the column of that name, or an empty one if there is no such column.
  const CsvField& field(std::size_t record, std::string_view column) const;

  const std::vector<CsvField>& header() const { return header_; }
  const std::vector<std::vector<CsvField>>& records() const { return records_; }
  const std::vector<Problem>& misfits() const { return misfits_; }

 private:
  std::string name_;
  std::vector<CsvField> header_;
  std::vector<std::vector<CsvField>> records_;
  std::vector<Problem> misfits_;
};

}  // namespace sim
