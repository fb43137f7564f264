// An allocation that failed, with its size: std::bad_alloc does not say how much was wanted.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace real {

class OutOfMemory : public std::runtime_error {
 public:
  // `what_for`: "the arena", "staging of a collective"
  OutOfMemory(std::int64_t bytes, const std::string& what_for)
      : std::runtime_error{"out of memory: " + std::to_string(bytes) + " bytes for " + what_for},
        bytes_{bytes} {}
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

}  // namespace real
