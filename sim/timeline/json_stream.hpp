// Text of trace events through a fixed buffer: no tree in memory, no formatting machinery per
// event.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"

namespace sim {

class JsonStream {
 public:
  explicit JsonStream(std::ostream& out);
  JsonStream(const JsonStream&) = delete;
  JsonStream& operator=(const JsonStream&) = delete;

  void text(std::string_view literal);  // as it is
  void integer(std::int64_t value);
  void microseconds(Duration value);   // "12.000345", exact
  void quoted(std::string_view text);  // a JSON string
  // Writes what is left. Throws std::runtime_error when the output fails, here or before.
  void flush();
  std::uint64_t bytes() const { return written_ + used_; }

 private:
  void room(std::size_t count);  // makes sure that `count` more characters fit

  std::ostream& out_;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
  std::uint64_t written_ = 0;
};

}  // namespace sim
