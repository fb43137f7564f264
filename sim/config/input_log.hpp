// Which files an answer was computed from. Everything that a user's input consists of is read by
// Document::load(); an InputLog hears of it while it lives, on the thread that made it.
//
//   InputLog log;
//   Scenario scenario = load_scenario(path);
//   log.files();   // the scenario, its model, its cluster, the cluster's device
#pragma once

#include <cstdint>
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

class InputLog {
 public:
  InputLog();
  InputLog(const InputLog&) = delete;
  InputLog& operator=(const InputLog&) = delete;
  ~InputLog();

  // Each file once, in the order in which they were first read.
  const std::vector<InputFile>& files() const { return files_; }

 private:
  friend class Document;
  static void note(const std::string& path, std::string_view bytes);

  InputLog* outer_;  // logs nest: each hears of everything
  std::vector<InputFile> files_;
};

}  // namespace sim
