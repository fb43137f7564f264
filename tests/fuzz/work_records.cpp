// Records of work: any text is an InputError, or records that write and read back as they were.
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/distribute/records.hpp"
#include "sim/search/distributed_search.hpp"
#include "sim/sweep/distributed_sweep.hpp"
#include "tests/fuzz/support/require.hpp"

using fuzz::require;

namespace {

// The same records once more, from what was understood of them.
std::string written(const sim::RecordHeader& header, const sim::ResultCache& book) {
  std::string text = sim::header_line(header);
  std::size_t left = book.size();
  for (std::uint64_t unit = 0; left > 0 && unit < header.question.units; ++unit)
    if (const std::string* answer = book.find(unit)) {
      text += sim::record_line(unit, *answer);
      --left;
    }
  return text;
}

void check(std::string_view text, const sim::ReadAnswer& read) {
  try {
    sim::ResultCache book;
    const sim::RecordsRead got = sim::parse_records(text, "fuzzed", read, book);
    require(got.intact <= text.size());
    require(got.intact == 0 || text[got.intact - 1] == '\n');
    require(got.header || book.size() == 0);
    require(sim::parse_header(text, "fuzzed").has_value() == got.header.has_value());
    if (!got.header || got.header->question.units > 100'000) return;
    const std::string again = written(*got.header, book);
    sim::ResultCache copy;
    const sim::RecordsRead reread = sim::parse_records(again, "again", read, copy);
    require(reread.header && reread.intact == again.size() && copy.size() == book.size());
    require(sim::difference(reread.header->question, got.header->question).empty());
    require(written(*reread.header, copy) == again);
  } catch (const sim::InputError& error) {
    require(!std::string_view{error.what()}.empty());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  check(text, sim::read_search_answer);
  check(text, sim::read_sweep_answer);
  return 0;
}
