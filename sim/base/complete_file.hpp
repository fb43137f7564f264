// A file that appears under its name only when it is complete and on the disk.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

namespace sim {

// CompleteFile writes a temporary file beside its own, which commit() flushes to the disk and
// renames. Until then, and after any failure, what the name stood for stays whole. Links are
// followed. Devices, pipes and what lies in /proc (/dev/stdout) are written to, never replaced.
// Every function throws std::runtime_error with the file and the cause that the system names.
class CompleteFile {
 public:
  explicit CompleteFile(std::string path);
  CompleteFile(const CompleteFile&) = delete;
  CompleteFile& operator=(const CompleteFile&) = delete;
  ~CompleteFile();  // without commit(): removes the temporary file

  void write(std::string_view bytes);
  void commit();

 private:
  void open_beside();
  [[noreturn]] void fail() const;

  std::string path_;       // as it was asked for
  std::string target_;     // where its links lead
  std::string temporary_;  // empty: `path_` is written to
  int handle_ = -1;
};

// write_complete_file calls `write` with the stream of a CompleteFile, and commits it.
void write_complete_file(const std::string& path,
                         const std::function<void(std::ostream& out)>& write);

}  // namespace sim
