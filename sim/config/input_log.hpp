// Which files an answer was computed from. Everything that a user's input consists of is read by
// Document::load() or read_input(); an InputLog hears of it while it lives, on the thread that
// made it.
//
//   InputLog log;
//   Scenario scenario = load_scenario(path);
//   log.files();   // the scenario, its model, its cluster, the cluster's device
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace sim {

struct InputFile {
  std::string path;
  std::string digest;  // of its bytes
  bool operator==(const InputFile&) const = default;
};

// 64-bit FNV-1a in hexadecimal. It tells inputs apart that differ by accident, not by intent.
std::string digest_of(std::string_view bytes);

// Whether a log also hears which keys readers ask their files for. Telling them takes time.
enum class LoggedKeys : std::uint8_t { none, asked };

class InputLog {
 public:
  explicit InputLog(LoggedKeys keys = LoggedKeys::none);
  InputLog(const InputLog&) = delete;
  InputLog& operator=(const InputLog&) = delete;
  ~InputLog();

  // Each file once, in the order in which they were first read.
  const std::vector<InputFile>& files() const { return files_; }
  // "layout.overlap.pipeline": with LoggedKeys::asked, the keys that were asked for, whether a file
  // has them or not, of every document whose reading came to its end. Nothing within lists.
  const std::set<std::string>& asked() const { return asked_; }

 private:
  friend class Document;
  friend void refuse_to_overwrite_input(const std::string& path);
  friend std::string read_input(const std::string& path);
  static void note(const std::string& path, std::string_view bytes);
  static bool wants_keys();
  static void note_keys(const std::vector<std::string>& paths);

  InputLog* outer_;  // logs nest: each hears of everything
  LoggedKeys keys_;
  std::vector<InputFile> files_;
  std::set<std::string> asked_;
};

// Throws InputError where `path` is a file that a living InputLog of this thread has heard of: it
// would be overwritten.
void refuse_to_overwrite_input(const std::string& path);

// All of a file that is no document; a log hears of it. Throws InputError if it cannot be read.
std::string read_input(const std::string& path);

}  // namespace sim
