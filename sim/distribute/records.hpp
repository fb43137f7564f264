// Answers as a text that only grows: JSON, a line each.
//
//   {"stepcast_records": 1, "command": "search", ... the question, and which part of it}
//   {"unit":17,"answer":{"fits":true, ...}}
//   {"finished":true}
//
// A worker that is killed leaves whole lines, and at most one that was cut, which is dropped. Any
// other line that is wrong is an error with its number: records are never guessed.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sim/base/input_error.hpp"
#include "sim/config/reader.hpp"
#include "sim/distribute/job_key.hpp"
#include "sim/distribute/shard.hpp"

namespace sim {

struct RecordHeader {
  JobKey question;
  Shard shard;
  std::string folder;  // in which it was asked: paths are relative to it
  bool operator==(const RecordHeader&) const = default;
};

// The answers that are known, by unit. An answer is the text of a JSON object; it is a function of
// question and unit, so two that differ cannot both be true.
class ResultCache {
 public:
  // Throws InputError naming both places if another answer is known.
  void add(std::uint64_t unit, std::string answer, const SourcePosition& where);
  const std::string* find(std::uint64_t unit) const;  // nullptr: not known
  std::size_t size() const { return answers_.size(); }

 private:
  struct Known {
    std::string answer;
    SourcePosition where;
  };
  std::map<std::uint64_t, Known> answers_;
};

// Reads an answer strictly and gives it as it is written: the same text for the same answer.
using ReadAnswer = std::function<std::string(const ObjectReader& answer)>;

struct RecordsRead {
  std::optional<RecordHeader> header;  // empty: not even the first line is whole
  bool finished = false;
  std::size_t intact = 0;  // bytes, up to the end of the last whole line
};

// `text` is that of the file `name`. Throws InputError.
RecordsRead parse_records(std::string_view text, const std::string& name, const ReadAnswer& read,
                          ResultCache& book);
// The first line alone.
std::optional<RecordHeader> parse_header(std::string_view text, const std::string& name);

std::string header_line(const RecordHeader& header);  // each with its line break
std::string record_line(std::uint64_t unit, std::string_view answer);
std::string finished_line();

}  // namespace sim
