// The file that records are appended to, by one process at a time.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "sim/distribute/records.hpp"

namespace sim {

class RecordFile {
 public:
  // Starts a file, or goes on with one: what it holds goes into `book`, a line that was cut is
  // removed. Throws InputError if it exists and `resume` is not set, if it answers another question
  // or is of another part, if another process is writing to it, or if it is damaged.
  RecordFile(std::string path, const RecordHeader& header, bool resume, const ReadAnswer& read,
             ResultCache& book);
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  ~RecordFile();

  // One write() each, where the system takes it whole: a process that is killed leaves whole lines.
  // Thread-safe.
  // Throws std::runtime_error when the file cannot grow.
  void append(std::uint64_t unit, std::string_view answer);
  void finish();  // this part is complete

  const std::string& path() const { return path_; }

 private:
  void open(bool resume);
  void go_on(const RecordHeader& header, const ReadAnswer& read, ResultCache& book);
  void write(std::string_view line);

  std::string path_;
  int descriptor_ = -1;
  bool finished_ = false;
  int broken_ = 0;  // why it may end in a part of a line: nothing may be written behind that
  std::mutex mutex_;
};

// The bytes of a file of records, of any size. Throws InputError.
std::string read_record_text(const std::string& path);

}  // namespace sim
