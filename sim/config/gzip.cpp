#include "sim/config/gzip.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

constexpr std::size_t block_size = std::size_t{1} << 18;
constexpr int gzip_header_only = 16 + MAX_WBITS;  // zlib's manual, inflateInit2

class Inflate {
 public:
  explicit Inflate(std::string_view content) : left_{content} {
    if (inflateInit2(&stream_, gzip_header_only) != Z_OK)
      throw std::runtime_error("zlib cannot be started");
  }
  ~Inflate() { inflateEnd(&stream_); }
  Inflate(const Inflate&) = delete;
  Inflate& operator=(const Inflate&) = delete;

  // Appends what fits into a block. Z_OK, Z_STREAM_END at the end of a member, or an error.
  int block(std::string& text) {
    if (stream_.avail_in == 0) feed();
    stream_.next_out = reinterpret_cast<Bytef*>(block_.data());
    stream_.avail_out = static_cast<uInt>(block_.size());
    const int result = inflate(&stream_, Z_NO_FLUSH);
    text.append(block_.data(), block_.size() - stream_.avail_out);
    return result;
  }
  // Another member follows.
  bool next_member() {
    if (stream_.avail_in == 0) feed();
    return stream_.avail_in > 0 && *stream_.next_in == 0x1f && inflateReset(&stream_) == Z_OK;
  }

 private:
  void feed() {
    const std::size_t most = std::numeric_limits<uInt>::max();
    const std::size_t size = std::min(most, left_.size());
    // zlib reads through a pointer that is not const, and writes nothing there.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(left_.data()));
    stream_.avail_in = static_cast<uInt>(size);
    left_.remove_prefix(size);
  }

  z_stream stream_{};
  std::vector<char> block_ = std::vector<char>(block_size);
  std::string_view left_;
};

}  // namespace

bool is_gzip(std::string_view content) {
  return content.starts_with("\x1f\x8b");
}

std::string unpack_gzip(std::string_view content, const std::string& name, std::size_t limit) {
  Inflate inflate{content};
  std::string text;
  while (true) {
    const int result = inflate.block(text);
    if (text.size() > limit)
      throw InputError{SourcePosition{name, 0, 0},
                       fmt::format("is larger than {} MiB when it is unpacked", limit >> 20)};
    if (result == Z_STREAM_END) {
      if (!inflate.next_member()) return text;
    } else if (result == Z_BUF_ERROR) {
      throw InputError{SourcePosition{name, 0, 0}, "is gzip that is cut off"};
    } else if (result != Z_OK) {
      throw InputError{SourcePosition{name, 0, 0}, "is gzip that is damaged"};
    }
  }
}

std::string head_of_gzip(std::string_view content, std::size_t most) {
  Inflate inflate{content};
  std::string text;
  while (text.size() < most) {
    const int result = inflate.block(text);
    if (result == Z_STREAM_END ? !inflate.next_member() : result != Z_OK) break;
  }
  text.resize(std::min(text.size(), most));
  return text;
}

}  // namespace sim
