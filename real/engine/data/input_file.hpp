// A file that is read in pieces at any place, by several threads at once: data too large to load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace real {

// Throws InputError of the file as a whole.
[[noreturn]] void refuse(const std::string& path, const std::string& what);

class InputFile {
 public:
  // Throws InputError where it cannot be opened or is no regular file.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t bytes() const { return bytes_; }  // when it was opened
  // Fills `to` from byte `offset` on. Throws InputError where the file ends before, as one that
  // was cut since, or cannot be read: a mapping of it into memory would end the process (SIGBUS).
  void read(std::int64_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  int handle_ = -1;
  std::int64_t bytes_ = 0;
};

}  // namespace real
