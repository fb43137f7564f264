#include "sim/base/table_text.hpp"

#include "tests/catch.hpp"

namespace sim {

TEST_CASE("numbers for people") {
  CHECK(grouped(std::int64_t{16'384}) == "16,384");
  CHECK(grouped(std::int64_t{-1'000'000}) == "-1,000,000");
  CHECK(grouped(std::int64_t{999}) == "999");
  CHECK(significant(226.44) == "226.4");
  CHECK(significant(3'708'123.0) == "3.708 million");
  CHECK(scaled_count(405'853'388'800) == "405.85 billion");
  CHECK(precise(std::chrono::milliseconds{5634}) == "5.634 s");
  CHECK(precise(std::chrono::microseconds{45'500}) == "45.50 ms");
  CHECK(precise(Duration{12}) == "12 ps");
  CHECK(precise(Duration{}) == "0 s");
  CHECK(precise(std::chrono::seconds{1287}) == "1,287 s");
  CHECK(precise(std::chrono::seconds{123'456}) == "123,456 s");
  CHECK(precise(std::chrono::milliseconds{999'960}) == "1,000 s");
  CHECK(precise(std::chrono::milliseconds{100'000}) == "100.0 s");
  CHECK(range_text(std::chrono::seconds{1520}, std::chrono::seconds{1750}) == "1,520 to 1,750 s");
  CHECK(range_text(std::chrono::milliseconds{6080}, std::chrono::milliseconds{6860}) ==
        "6.08 to 6.86 s");
  CHECK(range_text(std::chrono::milliseconds{50}, std::chrono::milliseconds{1500}) ==
        "0.0500 to 1.50 s");
  CHECK(significant(9999.7) == "10,000");
  CHECK(significant(15.6e12) == "15.6 trillion");
  CHECK(significant(1e13) == "10 trillion");
  CHECK(wrapped("aa bb cc", 5) == std::vector<std::string>{"aa bb", "cc"});
  CHECK(wrapped("unbreakable", 5) == std::vector<std::string>{"unbreakable"});
}

TEST_CASE("a field is quoted or escaped where its table needs it", "[base]") {
  CHECK(csv_field("plain") == "plain");
  CHECK(csv_field("a, \"b\"") == "\"a, \"\"b\"\"\"");
  CHECK(markdown_field("a|b") == "a\\|b");
  CHECK(title_of("largest_id_found") == "largest id found");
}

}  // namespace sim
