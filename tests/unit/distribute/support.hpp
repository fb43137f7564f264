// Records of a question of ten units, whose answers are {"value": n}.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "sim/distribute/record_file.hpp"
#include "tests/catch.hpp"
#include "tests/temporary.hpp"

namespace sim::test {

inline RecordHeader sample_header(Shard shard = {}) {
  return {.question = {.command = "search",
                       .version = "1.2.3",
                       .scenario = "a.yaml",
                       .arguments = {"--set", "search.top=3"},
                       .files = {{"a.yaml", "00000000000000aa"}, {"b.yaml", "00000000000000bb"}},
                       .units = 10},
          .shard = shard,
          .folder = std::filesystem::current_path().string()};
}

inline std::string read_value(const ObjectReader& answer) {
  return fmt::format("{{\"value\":{}}}", answer.integer("value"));
}

inline std::string value(std::uint64_t number) {
  return fmt::format("{{\"value\":{}}}", number);
}

inline std::string content_of(const std::string& path) {
  return read_record_text(path);
}

// Gone when it is done with.
struct TemporaryFile {
  std::string path;
  explicit TemporaryFile(const std::string& name) : path{temporary_path(name).string()} {
    std::filesystem::remove(path);
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  void write(const std::string& text) const { std::ofstream{path, std::ios::binary} << text; }
};

// problem_of() is what an InputError says, without the place.
template <class Call>
std::string problem_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.problems().front().what;
  }
  return "no problem";
}

template <class Call>
std::string place_of(Call call) {
  try {
    call();
  } catch (const InputError& error) {
    const SourcePosition& where = error.problems().front().where;
    return fmt::format("{}:{}", where.file, where.line);
  }
  return "no problem";
}

}  // namespace sim::test
