// Errors in what the user wrote. Files are read to the end, all their mistakes are collected in a
// Problems list, and one InputError carries them to main(), which prints it and exits with 3.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

struct SourcePosition {
  std::string file;
  int line = 0;    // 1-based, as editors count; 0: the file as a whole
  int column = 0;  // 1-based
};

struct Problem {
  SourcePosition where;
  std::string what;         // the error, and the values that are allowed
  std::string source_line;  // the text of the line, empty if unknown
};

// "file:line:column: what", then the source line and a caret below the column.
std::string to_text(const Problem& problem);

class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Problem> problems);
  InputError(SourcePosition where, std::string what);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

// The name among `candidates` nearest to `word` by edit distance, empty if none is near.
std::string_view nearest_name(std::string_view word,
                              const std::vector<std::string_view>& candidates);

}  // namespace sim
