// Bytes of a large input, block by block: of a file, plain or gzip, or of a text in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace sim {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // Writes up to `most` bytes to `into`; returns how many, 0 at the end. Throws InputError: the
  // input cannot be read, or is gzip that is cut off or damaged; it says after how many bytes.
  virtual std::size_t read(char* into, std::size_t most) = 0;
  const std::string& name() const { return name_; }  // for messages

 protected:
  explicit ByteSource(std::string name) : name_{std::move(name)} {}

 private:
  std::string name_;
};

// open_file() throws InputError for a file that cannot be opened. What is gzip is unpacked.
std::unique_ptr<ByteSource> open_file(const std::string& path);

// open_text(): `text` outlives the source.
std::unique_ptr<ByteSource> open_text(std::string_view text, std::string name);

// "1.5 GB", "12 MB", "300 bytes": a size for messages.
std::string size_text(std::uint64_t bytes);

}  // namespace sim
