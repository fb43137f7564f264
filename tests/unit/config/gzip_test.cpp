// gzip: bytes as `gzip -n` writes them.
#include "sim/config/gzip.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/unit/config/read.hpp"

namespace {

using namespace std::string_literals;

// printf 'hello\n' | gzip -n
const std::string hello =
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\xe7\x02\x00\x20\x30\x3a\x36\x06\x00\x00\x00"s;
constexpr std::size_t limit = 1000;

std::string refusal(const std::string& content, std::size_t most = limit) {
  return problems_of([&] { sim::unpack_gzip(content, "a.gz", most); });
}

}  // namespace

TEST_CASE("gzip is unpacked, all members of it", "[config]") {
  REQUIRE(sim::is_gzip(hello));
  CHECK_FALSE(sim::is_gzip("{}"));
  CHECK(sim::unpack_gzip(hello, "a.gz", limit) == "hello\n");
  CHECK(sim::unpack_gzip(hello + hello, "a.gz", limit) == "hello\nhello\n");
}

TEST_CASE("gzip that is cut off, damaged or too large is refused", "[config]") {
  CHECK(refusal(hello.substr(0, hello.size() - 5)) == "is gzip that is cut off");
  CHECK(refusal(hello.substr(0, 4)) == "is gzip that is cut off");
  std::string damaged = hello;
  damaged[14] = 'x';
  CHECK(refusal(damaged) == "is gzip that is damaged");
  CHECK(refusal(hello, 5) == "is larger than 0 MiB when it is unpacked");
}
