#include "sim/config/byte_source.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "sim/base/input_error.hpp"

namespace sim {
namespace {

constexpr unsigned gzip_buffer = 1U << 18;

class FileSource : public ByteSource {
 public:
  explicit FileSource(const std::string& path)
      : ByteSource{path}, file_{gzopen(path.c_str(), "rb")} {
    if (file_ == nullptr) throw InputError{SourcePosition{path, 0, 0}, "cannot be opened"};
    gzbuffer(file_, gzip_buffer);
  }
  ~FileSource() override { gzclose_r(file_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  std::size_t read(char* into, std::size_t most) override {
    const auto wanted =
        static_cast<unsigned>(std::min<std::size_t>(most, std::numeric_limits<int>::max()));
    const int count = gzread(file_, into, wanted);
    if (count < 0) fail();
    read_ += static_cast<std::uint64_t>(count);
    // A cut: the bytes before it are returned first, with the error beside them.
    if (count == 0) fail();
    return static_cast<std::size_t>(count);
  }

 private:
  void fail() {
    int code = Z_OK;
    gzerror(file_, &code);
    if (code == Z_OK || code == Z_STREAM_END) return;
    const char* what = "cannot be read";
    if (code == Z_BUF_ERROR) what = "is gzip that is cut off";
    if (code == Z_DATA_ERROR) what = "is gzip that is damaged";
    throw InputError{SourcePosition{name(), 0, 0},
                     fmt::format("{}: {} of text could be read", what, size_text(read_))};
  }

  gzFile file_;
  std::uint64_t read_ = 0;
};

class TextSource : public ByteSource {
 public:
  TextSource(std::string_view text, std::string name) : ByteSource{std::move(name)}, left_{text} {}

  std::size_t read(char* into, std::size_t most) override {
    const std::size_t count = left_.copy(into, most);
    left_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view left_;
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::string& path) {
  return std::make_unique<FileSource>(path);
}

std::unique_ptr<ByteSource> open_text(std::string_view text, std::string name) {
  return std::make_unique<TextSource>(text, std::move(name));
}

std::string size_text(std::uint64_t bytes) {
  const auto count = static_cast<double>(bytes);
  if (count >= 1e9) return fmt::format("{:.3g} GB", count * 1e-9);
  if (count >= 1e6) return fmt::format("{:.3g} MB", count * 1e-6);
  if (count >= 1e4) return fmt::format("{:.3g} kB", count * 1e-3);
  return fmt::format("{} bytes", bytes);
}

}  // namespace sim
