// The keys that users of other programs are pointed to exist.
#include <cctype>

#include "sim/catalog/catalog.hpp"
#include "sim/config/foreign/foreign_format.hpp"
#include "tests/catch.hpp"

namespace {

// The keys of a scenario in "layout.micro_batch x layout.sequence_length".
void check_keys(std::string_view text) {
  for (const std::string_view section : {"layout.", "cluster."})
    for (std::size_t at = text.find(section); at != std::string_view::npos;
         at = text.find(section, at + 1)) {
      std::size_t end = at;
      while (end < text.size() && (std::islower(static_cast<unsigned char>(text[end])) != 0 ||
                                   text[end] == '_' || text[end] == '.'))
        ++end;
      CAPTURE(text);
      CHECK(sim::find_key(text.substr(at, end - at)));
    }
}

}  // namespace

TEST_CASE("users of other programs are pointed to keys that exist", "[catalog]") {
  for (const auto rows : {sim::foreign_jobs(), sim::foreign_launches(), sim::foreign_files()})
    for (const sim::ForeignFormat& format : rows)
      for (const sim::SameKey& key : format.keys)
        check_keys(key.ours);
}
